"""The shapes of secrets, from the formats that vendors document; it knows nothing of how they are replaced.

A rule is searched for only where its hint stands in the text. Every repetition is bounded, or begins where a run of
its own characters begins (`_START`), so that a search is linear in the length of the text.
"""

import re
from typing import NamedTuple


class SecretRule(NamedTuple):
    """One shape. Where the pattern has a group, the group alone is the secret."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


_START = r"(?<![A-Za-z0-9_-])"
_END = r"(?![A-Za-z0-9_-])"
_WORD_START = r"(?<![A-Za-z0-9])"
_WORD_END = r"(?![A-Za-z0-9])"
_HEX_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def _prefixed(kind: str, *shapes: str) -> list[SecretRule]:
    """Make rules of tokens that begin with a fixed prefix: `prefix|what follows`."""
    made: list[SecretRule] = []
    for shape in shapes:
        prefix, _, rest = shape.partition("|")
        literal = re.escape(prefix)
        # A pattern that begins with its literal is searched for many times faster than one that looks behind first.
        made.append(SecretRule(kind, (prefix,), re.compile(rf"{literal}(?<![A-Za-z0-9_-]{literal}){rest}{_END}")))
    return made


def _rule(kind: str, hint: str, pattern: str) -> SecretRule:
    return SecretRule(kind, tuple(hint.split()), re.compile(pattern))


_SOURCE_CODE = [
    *_prefixed("github-token", *(f"{prefix}|[A-Za-z0-9]{{36,251}}" for prefix in ("ghp_", "gho_", "ghu_", "ghr_"))),
    *_prefixed("github-token", r"ghs_|[A-Za-z0-9_.-]{36,600}", r"github_pat_|[A-Za-z0-9_]{60,120}"),
    *_prefixed(
        "gitlab-token",
        *(
            f"gl{middle}-|[A-Za-z0-9_.=-]{{20,300}}"
            for middle in ("pat", "ptt", "dt", "rt", "rtr", "cbt", "ft", "imt", "agent", "oas", "soat", "ffct", "wt")
        ),
    ),
    *_prefixed("gitlab-token", r"GR1348941|[A-Za-z0-9_-]{20,50}"),
    *_prefixed("bitbucket-token", r"ATBB|[A-Za-z0-9]{24,40}", r"ATCTT3xFf|[A-Za-z0-9_=-]{100,400}"),
    *_prefixed("atlassian-token", r"ATATT3|[A-Za-z0-9_=-]{60,400}"),
    *_prefixed("npm-token", r"npm_|[A-Za-z0-9]{36}"),
    *_prefixed("pypi-token", r"pypi-|AgE[A-Za-z0-9_-]{50,1000}"),
    *_prefixed("rubygems-token", r"rubygems_|[a-f0-9]{48}"),
    *_prefixed("crates-token", r"cio|[A-Za-z0-9]{32}"),
    *_prefixed("nuget-key", r"oy2|[a-z0-9]{43}"),
    *_prefixed("clojars-token", r"CLOJARS_|[a-zA-Z0-9]{60}"),
    *_prefixed("docker-token", r"dckr_pat_|[A-Za-z0-9_-]{27,40}", r"dckr_oat_|[A-Za-z0-9_-]{27,40}"),
    *_prefixed("sourcegraph-token", r"sgp_|(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40}"),
    *_prefixed("artifactory-token", r"AKCp|[A-Za-z0-9]{60,80}", r"cmVmd|[A-Za-z0-9]{50,70}"),
    *_prefixed(
        "circleci-token", r"CCIPAT_|[A-Za-z0-9]{15,30}_[a-f0-9]{40}", r"CCIPRJ_|[A-Za-z0-9]{15,30}_[a-f0-9]{40}"
    ),
    *_prefixed("buildkite-token", r"bkua_|[a-z0-9]{40}"),
    *_prefixed("sonar-token", *(f"{prefix}|[a-f0-9]{{40}}" for prefix in ("squ_", "sqp_", "sqa_"))),
    *_prefixed("snyk-token", r"snyk_uat.|[a-z0-9]{8}\.[A-Za-z0-9_.-]{30,200}"),
    *_prefixed("postman-key", r"PMAK-|[a-f0-9]{24}-[a-f0-9]{34}"),
]

_CLOUD = [
    _rule("aws-access-key", "AKIA ASIA ABIA ACCA", _WORD_START + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}" + _WORD_END),
    *_prefixed("aws-bedrock-key", r"ABSK|[A-Za-z0-9+/]{100,270}={0,2}", r"bedrock-api-key-|[A-Za-z0-9+/=]{40,2000}"),
    _rule("aws-mws-key", "amzn.mws.", rf"amzn\.mws\.{_HEX_UUID}"),
    *_prefixed("google-api-key", r"AIza|[A-Za-z0-9_-]{35}"),
    *_prefixed("google-oauth-secret", r"GOCSPX-|[A-Za-z0-9_-]{28}"),
    *_prefixed("google-oauth-token", r"ya29.|[A-Za-z0-9_.-]{20,2000}", r"1//0|[A-Za-z0-9_-]{40,200}"),
    _rule("azure-client-secret", "Q~", r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    _rule("azure-devops-token", "AZDO", _WORD_START + r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}" + _WORD_END),
    _rule("azure-storage-key", "+ASt", _WORD_START + r"[A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{6}=="),
    _rule("azure-function-key", "AzFu", _START + r"[A-Za-z0-9_-]{40,50}AzFu[A-Za-z0-9_=-]{6,10}"),
    *_prefixed("alibaba-access-key", r"LTAI|[A-Za-z0-9]{16,26}"),
    *_prefixed("tencent-secret-id", r"AKID|[A-Za-z0-9]{32}"),
    *_prefixed("yandex-key", r"AQVN|[A-Za-z0-9_-]{35,38}", r"t1.|[A-Z0-9a-z_-]{5,300}=?\.[A-Z0-9a-z_-]{86}=?=?"),
    *_prefixed("yandex-access-key", r"YC|[A-Za-z0-9_-]{38}"),
    *_prefixed("digitalocean-token", *(f"{prefix}|[a-f0-9]{{64}}" for prefix in ("dop_v1_", "doo_v1_", "dor_v1_"))),
    *_prefixed("heroku-key", r"HRKU-|[A-Za-z0-9_-]{36,64}"),
    *_prefixed(
        "fly-token", r"fo1_|[A-Za-z0-9_-]{43}", r"fm1r_|[A-Za-z0-9+/_=-]{60,2000}", r"fm2_|[A-Za-z0-9+/_=-]{60,2000}"
    ),
    *_prefixed("netlify-token", r"nfp_|[A-Za-z0-9]{36,60}"),
    *_prefixed("render-key", r"rnd_|[A-Za-z0-9]{28,40}"),
    *_prefixed(
        "vercel-token", *(f"{prefix}|[A-Za-z0-9]{{24,80}}" for prefix in ("vcp_", "vci_", "vca_", "vcr_", "vck_"))
    ),
    *_prefixed("cloudflare-key", r"v1.0-|[a-f0-9]{24}-[a-f0-9]{146}"),
    *_prefixed(
        "cloudflare-token", *(f"{prefix}|[A-Za-z0-9]{{40}}[a-f0-9]{{8}}" for prefix in ("cfk_", "cfut_", "cfat_"))
    ),
    *_prefixed("scalingo-token", r"tk-us-|[A-Za-z0-9_-]{48}"),
    *_prefixed("pulumi-token", r"pul-|[a-f0-9]{40}"),
    _rule("terraform-token", ".atlasv1.", _WORD_START + r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}"),
    *_prefixed("vault-token", *(f"{prefix}|[A-Za-z0-9_-]{{24,300}}" for prefix in ("hvs.", "hvb.", "hvr."))),
    _rule(
        "vault-token", "s.", r"(?<![A-Za-z0-9_.-])s\.(?=[A-Za-z]*[0-9])(?=[^A-Z]*[A-Z])[A-Za-z0-9]{24}(?![A-Za-z0-9_.])"
    ),
    *_prefixed(
        "doppler-token", *(f"dp.{part}.|[A-Za-z0-9_.-]{{40,70}}" for part in ("pt", "st", "ct", "sa", "scim", "audit"))
    ),
    *_prefixed(
        "harness-token",
        r"pat.|[A-Za-z0-9_-]{22}\.[a-f0-9]{24}\.[A-Za-z0-9]{20}",
        r"sat.|[A-Za-z0-9_-]{22}\.[a-f0-9]{24}\.[A-Za-z0-9]{20}",
    ),
    *_prefixed("infracost-key", r"ico-|[A-Za-z0-9]{32}"),
    *_prefixed("prefect-key", r"pnu_|[a-z0-9]{36}"),
    *_prefixed("openshift-token", r"sha256~|[A-Za-z0-9_-]{43}"),
    *_prefixed(
        "tailscale-key", r"tskey-|[a-z]{3,10}-[A-Za-z0-9]{8,30}-[A-Za-z0-9]{16,50}", r"tskey-|[A-Za-z0-9]{16,50}"
    ),
    *_prefixed("1password-token", r"ops_eyJ|[A-Za-z0-9+/]{100,1500}={0,3}"),
    _rule(
        "1password-key",
        "A3-",
        _START + r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}" + _END,
    ),
    *_prefixed("age-key", r"AGE-SECRET-KEY-1|[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
]

_MODELS = [
    *_prefixed("anthropic-key", r"sk-ant-|[a-z]{2,10}[0-9]{2}-[A-Za-z0-9_-]{80,130}"),
    *_prefixed("openai-key", *(f"sk-{part}-|[A-Za-z0-9_-]{{40,200}}" for part in ("proj", "svcacct", "admin", "None"))),
    _rule("openai-key", "T3BlbkFJ", _START + r"sk-[A-Za-z0-9_-]{20,120}T3BlbkFJ[A-Za-z0-9_-]{20,120}"),
    *_prefixed("openrouter-key", r"sk-or-|v1-[a-f0-9]{64}"),
    *_prefixed("langfuse-key", rf"sk-lf-|{_HEX_UUID}"),
    *_prefixed("langsmith-key", r"lsv2_pt_|[a-f0-9]{32}_[a-f0-9]{10}", r"lsv2_sk_|[a-f0-9]{32}_[a-f0-9]{10}"),
    *_prefixed("api-key", r"sk-|[A-Za-z0-9]{32,64}", r"sk_|[a-f0-9]{48}", r"csk-|[a-z0-9]{40,60}"),
    *_prefixed("huggingface-token", r"hf_|[A-Za-z0-9]{34,40}", r"api_org_|[A-Za-z0-9]{34}"),
    *_prefixed("replicate-token", r"r8_|[A-Za-z0-9]{37}"),
    *_prefixed("groq-key", r"gsk_|[A-Za-z0-9]{52}"),
    *_prefixed("perplexity-key", r"pplx-|[A-Za-z0-9]{48}"),
    *_prefixed("xai-key", r"xai-|[A-Za-z0-9]{70,90}"),
    *_prefixed("fireworks-key", r"fw_|[A-Za-z0-9]{20,30}"),
    *_prefixed("together-key", r"tgp_v1_|[A-Za-z0-9_-]{43}"),
    *_prefixed("voyage-key", r"pa-|[A-Za-z0-9_-]{43}"),
    *_prefixed("pinecone-key", r"pcsk_|[A-Za-z0-9_]{60,80}"),
    *_prefixed("nvidia-key", r"nvapi-|[A-Za-z0-9_-]{60,70}"),
    *_prefixed("jina-key", r"jina_|[A-Za-z0-9_-]{50,70}"),
    *_prefixed("tavily-key", r"tvly-|(?:dev-|prod-)?[A-Za-z0-9]{32}"),
    *_prefixed("firecrawl-key", r"fc-|[a-f0-9]{32}"),
    *_prefixed("wandb-key", r"wandb_v1_|[A-Za-z0-9_]{60,100}"),
    *_prefixed("databricks-token", r"dapi|[a-f0-9]{32}(?:-\d)?", r"dose|[a-f0-9]{32}", r"dkea|[a-f0-9]{32}"),
]

_PAYMENT = [
    _rule("stripe-key", "sk_ rk_", _START + r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,247}" + _END),
    *_prefixed("webhook-secret", r"whsec_|[A-Za-z0-9+/=]{24,100}"),
    *_prefixed("square-token", r"sq0atp-|[A-Za-z0-9_-]{22}", r"sq0csp-|[A-Za-z0-9_-]{43}", r"EAAA|[A-Za-z0-9_-]{60}"),
    _rule("paypal-token", "access_token$", r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    *_prefixed(
        "shopify-token", *(f"{prefix}_|[a-fA-F0-9]{{32}}" for prefix in ("shpat", "shpca", "shppa", "shpss", "shptka"))
    ),
    *_prefixed("flutterwave-key", r"FLWSECK_TEST-|[a-h0-9]{12,32}(?:-X)?", r"FLWSECK-|[a-h0-9]{12,32}-X"),
    _rule("plaid-token", "access-", _START + rf"access-(?:sandbox|development|production)-{_HEX_UUID}"),
    *_prefixed("easypost-key", r"EZAK|[A-Za-z0-9]{54}", r"EZTK|[A-Za-z0-9]{54}"),
    *_prefixed("shippo-token", r"shippo_live_|[a-f0-9]{40}", r"shippo_test_|[a-f0-9]{40}"),
    *_prefixed("duffel-token", r"duffel_live_|[A-Za-z0-9_=-]{43}", r"duffel_test_|[A-Za-z0-9_=-]{43}"),
    _rule("lob-key", "live_ test_", _START + r"(?:live|test)_(?:pub_)?[a-f0-9]{31,35}" + _END),
    _rule("gocardless-token", "live_", _START + r"live_[A-Za-z0-9_-]{40}" + _END),
    *_prefixed("razorpay-key", r"rzp_live_|[A-Za-z0-9]{14}", r"rzp_test_|[A-Za-z0-9]{14}"),
    *_prefixed("polar-token", r"polar_oat_|[A-Za-z0-9]{40,50}"),
]

_MESSAGING = [
    *_prefixed("slack-token", *(f"xox{letter}-|[A-Za-z0-9-]{{10,250}}" for letter in "abeoprs")),
    *_prefixed("slack-token", r"xoxe.|xox[bp]-\d-[A-Za-z0-9]{100,200}", r"xapp-|\d-[A-Za-z0-9-]{20,150}"),
    *_prefixed("slack-token", r"xoxc-|[A-Za-z0-9-]{20,200}", r"xoxd-|[A-Za-z0-9%+/=-]{20,400}"),
    _rule(
        "slack-webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{20,120})"
    ),
    _rule("discord-webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/(\d{15,22}/[A-Za-z0-9_-]{40,100})"),
    _rule(
        "discord-token", "M N O", _START + r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}" + _END
    ),
    _rule("telegram-token", ":A", _START + r"\d{5,16}:A[A-Za-z0-9_-]{34}" + _END),
    _rule("teams-webhook", "webhook.office.com", r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/-]{60,250})"),
    _rule("twilio-key", "SK", _WORD_START + r"SK[a-f0-9]{32}" + _WORD_END),
    *_prefixed("sendgrid-key", r"SG.|[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}"),
    *_prefixed("mailgun-key", r"key-|[a-f0-9]{32}", r"pubkey-|[a-f0-9]{32}"),
    _rule("mailgun-key", "-", r"(?<![a-z0-9-])[a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8}(?![a-z0-9-])"),
    _rule("mailchimp-key", "-us", _WORD_START + r"[a-f0-9]{32}-us\d{1,2}" + _WORD_END),
    *_prefixed("brevo-key", r"xkeysib-|[a-f0-9]{64}-[A-Za-z0-9]{16}", r"xsmtpsib-|[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    *_prefixed("resend-key", r"re_|[A-Za-z0-9]{8}_[A-Za-z0-9]{20,30}"),
    *_prefixed("facebook-token", r"EAA|[MC][A-Za-z0-9]{100,300}"),
    *_prefixed("twitter-token", r"AAAAAAAAAAAAAAAAAAAAA|[A-Za-z0-9%]{60,120}"),
    *_prefixed("linkedin-secret", r"WPL_AP1.|[A-Za-z0-9]{16}\.[A-Za-z0-9+/=]{6,12}"),
]

_SERVICES = [
    *_prefixed("planetscale-token", *(f"pscale_{part}_|[A-Za-z0-9_=.-]{{32,64}}" for part in ("tkn", "pw", "oauth"))),
    *_prefixed("supabase-key", r"sbp_|[a-f0-9]{40}", r"sb_secret_|[A-Za-z0-9_-]{30,60}"),
    *_prefixed("neon-key", r"napi_|[a-z0-9]{60,70}"),
    *_prefixed(
        "new-relic-key",
        *(f"{prefix}-|[A-Za-z0-9]{{19,42}}" for prefix in ("NRAK", "NRJS", "NRII", "NRAA", "NRSP", "NRRA")),
    ),
    *_prefixed("grafana-token", r"glsa_|[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}", r"glc_|[A-Za-z0-9+/]{32,400}={0,3}"),
    *_prefixed("sentry-token", r"sntrys_|[A-Za-z0-9+/=_-]{60,500}", r"sntryu_|[a-f0-9]{64}"),
    *_prefixed("dynatrace-token", r"dt0c01.|[A-Z0-9]{24}\.[A-Z0-9]{64}", r"dt0s01.|[A-Z0-9]{8}\.[A-Z0-9]{64}"),
    _rule("honeycomb-key", "hca hcx hcb", _START + r"hc[abx][ilmk][kc]_[a-z0-9]{26}[A-Za-z0-9]{20,40}" + _END),
    *_prefixed("posthog-key", r"phx_|[A-Za-z0-9_]{40,60}"),
    *_prefixed("linear-key", r"lin_api_|[A-Za-z0-9]{40}", r"lin_oauth_|[A-Za-z0-9]{40,80}"),
    *_prefixed("notion-token", r"ntn_|[A-Za-z0-9]{40,60}", r"secret_|[A-Za-z0-9]{43}"),
    _rule("airtable-token", "pat", _START + r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}" + _END),
    *_prefixed("figma-token", r"figd_|[A-Za-z0-9_-]{40}", r"figo_|[A-Za-z0-9_-]{40}"),
    _rule("hubspot-key", "pat-", _START + rf"pat-(?:na|eu|ap)\d-{_HEX_UUID}"),
    *_prefixed("contentful-token", r"CFPAT-|[A-Za-z0-9_-]{43}"),
    *_prefixed("typeform-token", r"tfp_|[A-Za-z0-9_=.-]{59,62}"),
    *_prefixed("dropbox-token", r"sl.|(?:u\.)?[A-Za-z0-9_=-]{130,1500}"),
    _rule("launchdarkly-key", "api- sdk-", _START + rf"(?:api|sdk)-{_HEX_UUID}"),
    *_prefixed("readme-key", r"rdme_|[a-z0-9]{70}"),
    *_prefixed("frameio-token", r"fio-u-|[A-Za-z0-9_=-]{64}"),
    *_prefixed("adafruit-key", r"aio_|[A-Za-z0-9]{28}"),
    *_prefixed("defined-token", r"dnkey-|[a-z0-9_=-]{26}-[a-z0-9_=-]{52}"),
    *_prefixed("intra42-secret", r"s-s4t2ud-|[a-f0-9]{64}", r"s-s4t2af-|[a-f0-9]{64}"),
    *_prefixed("zuplo-key", r"zpka_|[A-Za-z0-9_-]{30,50}"),
    *_prefixed("settlemint-token", *(f"sm_{part}_|[A-Za-z0-9]{{16}}" for part in ("pat", "aat", "sat"))),
    _rule("maxmind-key", "_mmk", _START + r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    _rule("mapbox-token", "sk.eyJ", r"(?<![A-Za-z0-9_.-])sk\.eyJ[A-Za-z0-9_-]{40,300}\.[A-Za-z0-9_-]{20,60}"),
    *_prefixed("ngrok-token", r"ngrok_|[A-Za-z0-9]{20,60}"),
    *_prefixed("clickhouse-key", r"4b1d|[A-Za-z0-9]{38}"),
    *_prefixed("asana-token", r"1/|\d{15,17}(?:/\d{15,17})?:[a-f0-9]{32}"),
    *_prefixed("lichess-token", r"lip_|[A-Za-z0-9]{20}"),
    *_prefixed("uptimerobot-key", r"ur|\d{6,9}-[a-f0-9]{24}"),
    *_prefixed("statsig-key", r"secret-|[A-Za-z0-9]{40,50}"),
    *_prefixed("twitch-token", r"oauth:|[a-z0-9]{30}"),
    _rule("sumologic-key", "su", _START + r"su(?=[A-Za-z]{0,11}\d)[A-Za-z0-9]{12}(?=:[A-Za-z0-9]{64})"),
    _rule("jwt", "eyJ", _START + r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{10,}"),
    _rule("jwt", "ZXlK", _WORD_START + r"ZXlK[A-Za-z0-9+/_-]{60,4000}={0,2}"),
]

SECRET_RULES: tuple[SecretRule, ...] = (
    *_SOURCE_CODE,
    *_CLOUD,
    *_PAYMENT,
    *_MESSAGING,
    *_SERVICES,
    *_MODELS,
)
"""Tried in this order: where two match the same text, the earlier names it."""
