"""Lines with secrets, made at run time from a seed: nothing here has the shape of a secret as it stands."""

import base64
import random
import string
from collections.abc import Callable, Iterator
from functools import cache

HEX = "0123456789abcdef"
LOWER = string.ascii_lowercase + string.digits
WORD = string.ascii_letters + string.digits
URL = WORD + "-_"
BASE32 = string.ascii_uppercase + "234567"

Make = Callable[[random.Random], str]


def run(alphabet: str, length: int) -> Make:
    """Make random strings of one alphabet that hold a digit, a capital and a small letter where it has them."""
    kinds = [[each for each in alphabet if each in kind] for kind in (string.digits, string.ascii_letters)]

    def make(random_: random.Random) -> str:
        letters = [random_.choice(alphabet) for _ in range(length)]
        for place, kind in enumerate(kinds):
            if kind:
                letters[1 + place] = random_.choice(kind)
        letters[0] = letters[-1] = random_.choice([each for each in alphabet if each.isalnum()])
        return "".join(letters)

    return make


def join(*parts: str | Make) -> Make:
    """Make strings of fixed and random parts."""
    return lambda random_: "".join(each if isinstance(each, str) else each(random_) for each in parts)


def uuid(random_: random.Random) -> str:
    """Make a UUID."""
    return "-".join(run(HEX, length)(random_) for length in (8, 4, 4, 4, 12))


def jwt(random_: random.Random) -> str:
    """Make a JSON web token with a header that says so."""
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(f'{{"sub":"{random_.randint(1, 10**9)}"}}'.encode()).decode().rstrip("=")
    return f"{header}.{body}.{run(URL, 43)(random_)}"


VENDORS: dict[str, Make] = {
    "github classic": join("gh", "p_", run(WORD, 36)),
    "github oauth": join("gh", "o_", run(WORD, 36)),
    "github app": join("gh", "s_", run(WORD, 36)),
    "github fine": join("github", "_pat_", run(WORD, 22), "_", run(WORD, 59)),
    "gitlab": join("gl", "pat-", run(URL, 20)),
    "gitlab runner": join("gl", "rt-", run(URL, 20)),
    "gitlab deploy": join("gl", "dt-", run(URL, 20)),
    "bitbucket": join("AT", "BB", run(WORD, 32)),
    "atlassian": join("ATA", "TT3", run(URL, 180)),
    "npm": join("np", "m_", run(WORD, 36)),
    "swarm-memory": join("sw", "m_", run(URL, 43)),
    "pypi": join("pyp", "i-AgEIcHlwaS5vcmc", run(URL, 120)),
    "rubygems": join("ruby", "gems_", run(HEX, 48)),
    "crates": join("ci", "o", run(WORD, 32)),
    "nuget": join("oy", "2", run(LOWER, 43)),
    "clojars": join("CLOJ", "ARS_", run(LOWER, 60)),
    "docker": join("dckr", "_pat_", run(URL, 27)),
    "sourcegraph": join("sg", "p_", run(HEX, 40)),
    "artifactory": join("AK", "Cp", run(WORD, 69)),
    "circleci": join("CCI", "PAT_", run(WORD, 22), "_", run(HEX, 40)),
    "buildkite": join("bk", "ua_", run(HEX, 40)),
    "sonar": join("sq", "u_", run(HEX, 40)),
    "postman": join("PM", "AK-", run(HEX, 24), "-", run(HEX, 34)),
    "aws id": join("AK", "IA", run(BASE32, 16)),
    "aws session id": join("AS", "IA", run(BASE32, 16)),
    "aws mws": join("amzn", ".mws.", uuid),
    "google": join("AI", "za", run(URL, 35)),
    "google oauth secret": join("GOC", "SPX-", run(URL, 28)),
    "google oauth": join("ya", "29.", run(URL, 120)),
    "azure client": join(run(WORD, 3), "8", "Q~", run(WORD, 34)),
    "azure devops": join(run(WORD, 76), "AZ", "DO", run(WORD, 4)),
    "alibaba": join("LT", "AI", run(WORD, 20)),
    "tencent": join("AK", "ID", run(WORD, 32)),
    "yandex": join("AQ", "VN", run(URL, 36)),
    "digitalocean": join("dop", "_v1_", run(HEX, 64)),
    "heroku": join("HRKU", "-AA", run(WORD, 58)),
    "fly": join("fo", "1_", run(URL, 43)),
    "netlify": join("nf", "p_", run(WORD, 40)),
    "render": join("rn", "d_", run(WORD, 32)),
    "cloudflare": join("v1", ".0-", run(HEX, 24), "-", run(HEX, 146)),
    "pulumi": join("pu", "l-", run(HEX, 40)),
    "terraform": join(run(WORD, 14), ".atlas", "v1.", run(WORD, 67)),
    "vault": join("hv", "s.", run(URL, 90)),
    "doppler": join("dp", ".pt.", run(WORD, 43)),
    "infracost": join("ic", "o-", run(WORD, 32)),
    "prefect": join("pn", "u_", run(LOWER, 36)),
    "openshift": join("sha", "256~", run(URL, 43)),
    "tailscale": join("ts", "key-auth-", run(WORD, 16), "-", run(WORD, 32)),
    "age": join("AGE-SECRET", "-KEY-1", run("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
    "anthropic": join("sk-", "ant-api03-", run(URL, 93), "AA"),
    "openai project": join("sk-", "proj-", run(URL, 60), "T3Blbk", "FJ", run(URL, 60)),
    "openai": join("sk-", run(WORD, 20), "T3Blbk", "FJ", run(WORD, 20)),
    "openrouter": join("sk-", "or-v1-", run(HEX, 64)),
    "langsmith": join("lsv2", "_pt_", run(HEX, 32), "_", run(HEX, 10)),
    "deepseek": join("sk-", run(HEX, 32)),
    "elevenlabs": join("sk", "_", run(HEX, 48)),
    "huggingface": join("h", "f_", run(WORD, 34)),
    "replicate": join("r", "8_", run(WORD, 37)),
    "groq": join("gs", "k_", run(WORD, 52)),
    "perplexity": join("ppl", "x-", run(WORD, 48)),
    "xai": join("xa", "i-", run(WORD, 80)),
    "pinecone": join("pc", "sk_", run(WORD, 68)),
    "nvidia": join("nv", "api-", run(URL, 64)),
    "tavily": join("tv", "ly-", run(WORD, 32)),
    "firecrawl": join("fc", "-", run(HEX, 32)),
    "databricks": join("da", "pi", run(HEX, 32)),
    "stripe live": join("sk", "_live_", run(WORD, 24)),
    "stripe restricted": join("rk", "_test_", run(WORD, 99)),
    "stripe webhook": join("wh", "sec_", run(WORD, 32)),
    "square": join("sq0", "atp-", run(URL, 22)),
    "paypal": join("access", "_token$production$", run(LOWER, 16), "$", run(HEX, 32)),
    "shopify": join("shp", "at_", run(HEX, 32)),
    "plaid": join("access", "-sandbox-", uuid),
    "easypost": join("EZ", "AK", run(WORD, 54)),
    "shippo": join("shippo", "_live_", run(HEX, 40)),
    "duffel": join("duffel", "_live_", run(URL, 43)),
    "slack bot": join("xo", "xb-", run(string.digits, 12), "-", run(string.digits, 12), "-", run(WORD, 24)),
    "slack app": join("xa", "pp-1-A", run(BASE32, 10), "-", run(string.digits, 13), "-", run(HEX, 64)),
    "slack webhook": join(
        "https://hooks.slack", ".com/services/T", run(BASE32, 9), "/B", run(BASE32, 9), "/", run(WORD, 24)
    ),
    "discord webhook": join("https://discord", ".com/api/webhooks/", run(string.digits, 18), "/", run(URL, 68)),
    "discord bot": join("M", run(WORD, 25), ".", run(URL, 6), ".", run(URL, 38)),
    "telegram": join(run(string.digits, 10), ":A", "A", run(URL, 33)),
    "twilio": join("S", "K", run(HEX, 32)),
    "sendgrid": join("S", "G.", run(URL, 22), ".", run(URL, 43)),
    "mailgun": join("ke", "y-", run(HEX, 32)),
    "mailchimp": join(run(HEX, 32), "-u", "s14"),
    "brevo": join("xkey", "sib-", run(HEX, 64), "-", run(WORD, 16)),
    "resend": join("r", "e_", run(WORD, 8), "_", run(WORD, 24)),
    "planetscale": join("pscale", "_tkn_", run(WORD, 43)),
    "supabase": join("sb", "p_", run(HEX, 40)),
    "new relic": join("NR", "AK-", run(BASE32, 27)),
    "grafana": join("gl", "sa_", run(WORD, 32), "_", run(HEX, 8)),
    "sentry": join("sntr", "yu_", run(HEX, 64)),
    "dynatrace": join("dt0", "c01.", run(BASE32, 24), ".", run(BASE32, 64)),
    "posthog": join("ph", "x_", run(WORD, 43)),
    "linear": join("lin", "_api_", run(WORD, 40)),
    "notion": join("nt", "n_", run(WORD, 46)),
    "airtable": join("pa", "t", run(WORD, 14), ".", run(HEX, 64)),
    "figma": join("fig", "d_", run(URL, 40)),
    "hubspot": join("pat", "-na1-", uuid),
    "contentful": join("CF", "PAT-", run(URL, 43)),
    "typeform": join("tf", "p_", run(URL, 59)),
    "launchdarkly": join("sd", "k-", uuid),
    "readme": join("rd", "me_", run(LOWER, 70)),
    "frameio": join("fio", "-u-", run(URL, 64)),
    "adafruit": join("ai", "o_", run(WORD, 28)),
    "mapbox": join("sk.", "eyJ", run(WORD, 80), ".", run(URL, 22)),
    "jwt": jwt,
}

CONTEXTS: dict[str, Make] = {
    "password in settings": join("pass", "word = ", run(WORD, 12)),
    "password in yaml": join("db_pass", "word: ", run(WORD, 10)),
    "password in json": join('{"pass', 'word": "', run(WORD, 11), '"}'),
    "password on the command line": join("psql --pass", "word ", run(WORD, 12)),
    "password of mysql": join("mysql -u root -", "p", run(WORD, 12), " shop"),
    "password of curl": join("curl -u admin", ":", run(WORD, 12), " https://host/x"),
    "password in an address": join("postgres://app", ":", run(WORD, 14), "@db:5432/app"),
    "password of redis": join("redis://", ":", run(WORD, 20), "@cache:6379/0"),
    "password in the environment": join("PGPASS", "WORD=", run(WORD, 10), " psql"),
    "api key in the environment": join("export MY_API_", "KEY=", run(WORD, 32)),
    "api key header": join("x-api-", "key: ", run(WORD, 32)),
    "api key in code": join("api_", 'key="', run(URL, 28), '"'),
    "client secret": join("client_", "secret: ", run(URL, 40)),
    "aws secret": join("aws_secret_access_", "key = ", run(WORD + "+/", 40)),
    "account key": join("AccountName=x;Account", "Key=", run(WORD + "+/", 86), "==;Endpoint=y"),
    "query parameter": join("GET /x?access_", "token=", run(WORD, 30), "&page=2"),
    "bearer": join("Authorization: Bea", "rer ", run(URL, 40)),
    "basic": join("Authorization: Ba", "sic ", run(WORD, 28), "=="),
    "bearer alone": join("curl -H 'Bea", "rer ", run(URL, 40), "'"),
    "cookie": join("Cookie: sess", "ionid=", run(LOWER, 32), "; theme=dark"),
    "npmrc": join("//registry.example/:_auth", "Token=", run(WORD, 36)),
    "docker auth": join('"au', 'th": "', run(WORD, 40), '"'),
    "netrc": join("machine h login me pass", "word ", run(WORD, 14)),
    "secret key": join("SECRET_", "KEY = '", run(WORD + "!@#%^*", 50), "'"),
}

RARE: dict[str, Make] = {
    "gitlab-token-runner": join("GR134", "8941", run(URL, 20)),
    "bitbucket-token-repository": join("ATCTT", "3xFf", run(URL, 180)),
    "artifactory-token-cmvmd": join("cmV", "md", run(WORD, 59)),
    "snyk-token": join("snyk", "_uat.", run(LOWER, 8), ".", run(URL, 60)),
    "aws-bedrock-key-absk": join("AB", "SK", run(WORD, 128), "="),
    "aws-bedrock-key-bedrock-api-key": join("bedrock-api", "-key-", run(WORD, 100)),
    "google-oauth-token-refresh": join("1/", "/0", run(URL, 60)),
    "azure-storage-key": join(run(WORD, 76), "+A", "St", run(WORD, 6), "=="),
    "azure-function-key": join(run(URL, 44), "Az", "Fu", run(WORD, 6), "=="),
    "yandex-key-t1": join("t", "1.", run(WORD, 60), ".", run(URL, 86)),
    "yandex-access-key": join("Y", "C", run(URL, 38)),
    "fly-token-fm1r": join("fm", "2_", run(WORD, 200)),
    "vercel-token": join("vc", "p_", run(WORD, 24)),
    "cloudflare-token": join("cf", "ut_", run(WORD, 40), run(HEX, 8)),
    "scalingo-token": join("tk", "-us-", run(URL, 48)),
    "vault-token-old": join("s", ".", run(WORD, 24)),
    "harness-token": join("pa", "t.", run(URL, 22), ".", run(HEX, 24), ".", run(WORD, 20)),
    "tailscale-key-tskey-short": join("ts", "key-", run(WORD, 24)),
    "1password-token": join("ops", "_eyJ", run(WORD, 250), "="),
    "1password-key": join("A", "3-", *(run(BASE32, 6), "-", run(BASE32, 11), *("-", run(BASE32, 5)) * 3)),
    "square-token-sq0csp": join("sq0", "csp-", run(URL, 43)),
    "square-token-eaaa": join("EA", "AA", run(URL, 60)),
    "flutterwave-key-flwseck-test": join("FLWSECK", "_TEST-", run(HEX, 32), "-X"),
    "flutterwave-key-flwseck": join("FLW", "SECK-", run(HEX, 32), "-X"),
    "lob-key": join("live", "_pub_", run(HEX, 31)),
    "gocardless-token": join("li", "ve_", run(URL, 40)),
    "razorpay-key": join("rzp", "_live_", run(WORD, 14)),
    "polar-token": join("polar", "_oat_", run(WORD, 44)),
    "slack-token-xoxe": join("xo", "xe.xoxp-1-", run(WORD, 160)),
    "slack-token-xoxc": join("xo", "xc-", run(WORD, 60)),
    "slack-token-xoxd": join("xo", "xd-", run(WORD, 60), "%2B", run(WORD, 20)),
    "teams-webhook": join("https://acme.webhook.office", ".com/webhookb2/", run(WORD, 36), "@", run(WORD, 36)),
    "mailgun-key-bare": join(run(HEX, 32), "-", run(HEX, 8), "-", run(HEX, 8)),
    "facebook-token": join("EA", "AM", run(WORD, 160)),
    "twitter-token": join("A" * 21, run(WORD, 90)),
    "linkedin-secret": join("WPL", "_AP1.", run(WORD, 16), ".", run(WORD, 8), "=="),
    "supabase-key-sb-secret": join("sb", "_secret_", run(URL, 31)),
    "neon-key": join("na", "pi_", run(LOWER, 64)),
    "grafana-token-glc": join("gl", "c_", run(WORD, 120), "=="),
    "sentry-token-sntrys": join("sntr", "ys_", run(WORD, 150)),
    "dynatrace-token-dt0s01": join("dt0", "s01.", run(BASE32, 8), ".", run(BASE32, 64)),
    "honeycomb-key": join("hc", "aik_", run(LOWER, 26), run(WORD, 32)),
    "linear-key-lin-oauth": join("lin", "_oauth_", run(WORD, 64)),
    "notion-token-secret": join("sec", "ret_", run(WORD, 43)),
    "dropbox-token": join("sl", ".u.", run(URL, 160)),
    "defined-token": join("dn", "key-", run(LOWER, 26), "-", run(LOWER, 52)),
    "intra42-secret": join("s-s4t", "2ud-", run(HEX, 64)),
    "zuplo-key": join("zp", "ka_", run(URL, 36)),
    "settlemint-token": join("sm", "_pat_", run(WORD, 16)),
    "maxmind-key": join(run(WORD, 6), "_", run(WORD, 29), "_m", "mk"),
    "ngrok-token": join("ng", "rok_", run(WORD, 40)),
    "clickhouse-key": join("4b", "1d", run(WORD, 38)),
    "asana-token": join("1", "/", run(string.digits, 16), ":", run(HEX, 32)),
    "lichess-token": join("li", "p_", run(WORD, 20)),
    "uptimerobot-key": join("u", "r", run(string.digits, 7), "-", run(HEX, 24)),
    "statsig-key": join("sec", "ret-", run(WORD, 44)),
    "twitch-token": join("oau", "th:", run(LOWER, 30)),
    "sumologic-key": join("s", "u", run(WORD, 12), ":", run(WORD, 64)),
    "jwt-base64": join("ZX", "lK", run(WORD, 200)),
    "langfuse-key": join("sk-", "lf-", uuid),
    "api-key-csk": join("cs", "k-", run(LOWER, 48)),
    "huggingface-token-api-org": join("api", "_org_", run(WORD, 34)),
    "fireworks-key": join("f", "w_", run(WORD, 24)),
    "together-key": join("tgp", "_v1_", run(URL, 43)),
    "voyage-key": join("p", "a-", run(URL, 43)),
    "jina-key": join("ji", "na_", run(URL, 60)),
    "wandb-key": join("wandb", "_v1_", run(WORD, 80)),
    "databricks-token-dose": join("do", "se", run(HEX, 32)),
    "url-token": join("https:", "//", run(WORD, 32), "@host.example/x.git"),
    "aws-secret-key": join("aws put ", run(WORD, 20), "/", run(WORD, 10), "+", run(WORD, 8), " x"),
    "aws-session-token": join("IQoJ", "b3JpZ2lu", run(WORD, 200), "=="),
    "aws-appsync-key": join("da", "2-", run(LOWER, 26)),
    "amazon-oauth-secret": join("amzn1", ".oa2-cs.v1.", run(HEX, 64)),
    "openai-session": join("se", "ss-", run(WORD, 40)),
    "runpod-key": join("rp", "a_", run(string.ascii_uppercase + string.digits, 44)),
    "e2b-key": join("e2", "b_", run(HEX, 40)),
    "apify-token": join("apify", "_api_", run(WORD, 36)),
    "anyscale-key": join("ese", "cret_", run(LOWER, 28)),
    "google-ai-key": join("AQ", ".Ab", run(URL, 50)),
    "langsmith-old-key": join("ls", "__", run(HEX, 32)),
    "aiven-password": join("AV", "NS_", run(WORD, 19)),
    "adobe-secret": join("p8", "e-", run(WORD, 32)),
    "authress-key": join(
        "sc", "_", run(LOWER, 20), ".", run(LOWER, 4), ".ac", "c-", run(LOWER, 20), ".", run(WORD, 60)
    ),
    "airtable-old-key": join("ke", "y", run(WORD, 14)),
    "clickup-token": join("p", "k_", run(string.digits, 8), "_", run(string.ascii_uppercase + string.digits, 32)),
    "dependency-track-key": join("od", "t_", run(WORD, 32)),
    "facebook-app-token": join(run(string.digits, 15), "|", run(WORD, 27)),
    "facebook-user-token": join("EAACE", "dEose0cBA", run(WORD, 100)),
    "fernet-token": join("gAA", "AAA", run(URL, 120), "=="),
    "github-app-token-old": join("v", "1.", run(HEX, 40)),
    "gitlab-session": join("_gitlab", "_session=", run(HEX, 32)),
    "grafana-old-key": join("eyJ", "rIjoi", run(WORD, 80), "=="),
    "intercom-token": join("dG", "9r", run(WORD, 56)),
    "ionic-token": join("io", "n_", run(WORD, 42)),
    "kubeconfig-token": join("to", "ken-", run(LOWER, 5), ":", run(LOWER, 54)),
    "mailersend-key": join("ml", "sn.", run(HEX, 64)),
    "mollie-key": join("li", "ve_", run(WORD, 30)),
    "new-relic-license": join(run(HEX, 36), "NR", "AL"),
    "octopus-key": join("AP", "I-", run(string.ascii_uppercase + string.digits, 26)),
    "okta-token": join("0", "0", run(WORD, 20), "_", run(WORD, 19)),
    "salesforce-session": join("0", "0", run(WORD, 13), "!", "A", run(WORD, 95)),
    "scaleway-key": join("SC", "W", run(string.ascii_uppercase + string.digits, 17)),
    "secret-token": join("secret-", "token:", run(WORD, 40)),
    "slack-token-xwfp": join("xw", "fp-", run(string.digits, 12), "-", run(WORD, 40)),
    "slack-token-old-app": join("xo", "xe-1-", run(WORD, 140)),
    "sourcegraph-amp-token": join("sg", "amp_", run(WORD, 60)),
    "stackhawk-key": join("ha", "wk.", run(WORD, 20), ".", run(WORD, 20)),
    "trello-token": join("AT", "TA", run(HEX, 64), run("0123456789ABCDEF", 8)),
    "truenas-key": join("1", "-", run(WORD, 64)),
    "ubidots-token": join("BB", "FF-", run(WORD, 30)),
    "vercel-blob-token": join("vercel", "_blob_rw_", run(WORD, 40)),
    "volcengine-key": join("AK", "LT", run(WORD, 40)),
    "baidu-key": join("bce-v3", "/ALTAK-", run(WORD, 21), "/", run(HEX, 40)),
    "wakatime-key": join("wa", "ka_", uuid),
    "xata-key": join("xa", "u_", run(WORD, 36)),
    "trigger-key": join("tr", "_prod_", run(WORD, 20)),
    "inngest-key": join("sign", "key-prod-", run(HEX, 64)),
    "unkey-key": join("un", "key_", run(WORD, 22)),
    "extended-private-key": join("xp", "rv", run("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 107)),
    "password-hash": join("$2", "b$12$", run(WORD + "./", 53)),
    "outlook-webhook": join("https://outlook.office", ".com/webhook/", uuid, "@", uuid),
    "zapier-webhook": join("https://hooks.zapier", ".com/hooks/catch/", run(string.digits, 7), "/", run(LOWER, 7)),
    "random-key": join("ac", "me_", run(WORD, 40)),
    "signature-in-header": join('Authorization: OAuth realm="x", oauth_signa', 'ture="', run(WORD, 27), '%3D"'),
    "jwk": join('{"kty": "EC", "', 'd": "', run(URL, 43), '"}'),
    "password-flag": join("openssl rsa -pas", "sin pass", ":", run(WORD, 12), " -in x.pem"),
    "user-flag": join("wget --us", "er bob", ":", run(WORD, 12), " https://host/x"),
    "identified-by": join("CREATE USER x IDENTI", "FIED BY '", run(WORD, 12), "';"),
    "login-password": join("docker login -u me -", "p ", run(WORD, 12), " registry.example"),
    "password-before": join(run(WORD, 12), " is the pass", "word"),
    "api": join("acme_a", "pi = '", run(HEX, 32), "'"),
    "pat": join("ado_p", "at = '", run(LOWER, 52), "'"),
    "pw": join("p", "w: ", run(WORD, 12)),
    "password-abroad": join("Kenn", "wort: ", run(WORD, 12)),
    "pwd": join("pw", 'd: "', run(WORD, 14), '"'),
    "pass": join("DB_PA", "SS=", run(WORD, 14)),
    "credential": join("creden", 'tial: "', run(WORD, 32), '"'),
    "signature": join("https://bucket.example/x?X-Amz-Signa", "ture=", run(HEX, 64)),
    "sig": join("https://account.example/x?sv=2024-11-04&si", "g=", run(WORD, 44), "%3D"),
}
"""What a rule is for that none of the lines above fires, by the name of the rule."""

FRAMES = ("{}", "export X={}", "the value is '{}'.", '  "key": "{}",')


@cache
def vendor_lines(seed: int) -> tuple[tuple[str, str, str], ...]:
    """Return (kind, secret, line): each vendor's format in two surroundings."""
    random_, lines = random.Random(seed), list[tuple[str, str, str]]()
    for number, (kind, make) in enumerate(VENDORS.items()):
        for frame in (FRAMES[number % 4], FRAMES[(number + 1) % 4]):
            secret = make(random_)
            lines.append((kind, secret, frame.format(secret)))
    return tuple(lines)


def rare_lines(seed: int) -> Iterator[tuple[str, str]]:
    """Yield (name of the rule that it is for, line)."""
    random_ = random.Random(seed)
    for rule, make in RARE.items():
        yield rule, make(random_)


def context_lines(seed: int, times: int) -> Iterator[tuple[str, str]]:
    """Yield (kind, line)."""
    random_ = random.Random(seed)
    for _ in range(times):
        for kind, make in CONTEXTS.items():
            yield kind, make(random_)


def pem(random_: random.Random, lines: int = 12) -> str:
    """Make a private key's frame with a random body."""
    body = "\n".join(run(WORD + "+/", 64)(random_) for _ in range(lines))
    name = "RSA PRIVATE" + " KEY"
    return f"-----BEGIN {name}-----\n{body}\n-----END {name}-----"
