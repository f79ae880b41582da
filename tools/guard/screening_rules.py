"""The shapes of text that is aimed at an agent: a table of rules. It applies none of them.

Every pattern sees text in lower case, is bounded and has no nested repetition, so that searching is linear.
"""

import re
from typing import NamedTuple


class Rule(NamedTuple):
    """One shape of attack."""

    name: str
    pattern: re.Pattern[str]
    can_be_negated: bool = True
    """Whether "never …" before it makes it sound advice."""


def any_of(*parts: str) -> re.Pattern[str]:
    """Return what matches any of the parts."""
    return re.compile("|".join(f"(?:{part})" for part in parts))


FORGIVEN = re.compile(
    r"\b(?:never|do not|don't|does not|must not|mustn't|should not|shouldn't|cannot|can't|avoid|refuse|instead of"
    r"|rather than|stop|forbid|forbidden|reject|block|prevent|detect|without|no longer|not)\b"
)
"""What takes back what follows it in the clause."""

INSISTING = re.compile(r"\b(?:forget|fail|hesitate|omit|skip|neglect|refuse|miss|only|just|simply)\b")
"""What makes of "never" an order: never forget to …, do not just … but …"""

ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb"
    "\u03bf\u03b1\u03b5\u03b9\u03ba\u03bd\u03c1\u03c4\u0131\u0261",
    "aeopcyxijsdhoaeikvptig",
)
"""Letters of other alphabets that look like Latin ones."""

_PAST = (
    r"(?:previous|prior|above|earlier|preceding|foregoing|former|existing|all|any|other|your|system|initial|original)"
)
_ORDERS = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directions?|directives?|polic(?:y|ies)|constraints?|orders?"
    r"|commands?"
    r"|guardrails?|safeguards?|restrictions?|context|notes)"
)
_PEOPLE = (
    r"(?:users?|humans?|operators?|owners?|maintainers?|anyone|anybody|reviewers?|admins?|administrators?|them"
    r"|people)"
)
_MODELS = (
    r"(?:ai|a\.i\.|llms?|language models?|assistants?|agents?|claude(?: code)?|gpt|copilot|codex|gemini|models?"
    r"|bots?)"
)
_SECRETS = (
    r"(?:api[ _-]?keys?|access[ _-]?keys?|secrets?|tokens?|passwords?|passphrases?|credentials?|private[ _-]?keys?"
    r"|ssh[ _-]?keys?|\.env\b|env(?:ironment)?(?: variables?| vars?)?\b|cookies?|id_rsa|id_ed25519|\.aws|\.npmrc"
    r"|\.netrc"
    r"|\.ssh|/etc/passwd|/etc/shadow|printenv|conversation|chat history|system prompt|customer data|source code"
    r"|private data"
    r"|personal data|session data|keychain|wallet)"
)
_AWAY = (
    r"(?:https?://|ftp://|[\w.+-]{1,60}@[\w-]{1,60}\.|webhook|pastebin|gist\b|ngrok|requestbin|burpcollaborator"
    r"|telegram"
    r"|discord|external|remote (?:host|server|endpoint|address)|attacker|collector|third[- ]party"
    r"|outside (?:server|host)"
    r"|query string|dns (?:query|lookup|record)|public (?:repo|bucket|gist|url)|[\w-]{1,60}\.(?:evil|attacker"
    r"|example)\b)"
)
_SHELL = r"(?:sudo )?(?:ba|z|da|k|fi)?sh\b|(?:sudo )?(?:python3?|perl|ruby|node|php)\b|iex\b"

RULES: tuple[Rule, ...] = (
    Rule(
        "override of instructions",
        any_of(
            rf"\b(?:ignore|disregard|forget|discard|override|overrule|bypass|pay no attention to|set aside"
            rf"|do not follow"
            rf"|stop following)\b[^.\n]{{0,40}}\b{_PAST}\b[^.\n]{{0,30}}\b{_ORDERS}\b",
            r"\b(?:ignore|disregard|forget|pay no attention to)\b[^.\n]{0,20}\b(?:everything|anything"
            r"|what)\b[^.\n]{0,40}"
            r"\b(?:above|before|told|said|instructed)\b",
            r"\b(?:ignoriere|vergiss|missachte)\w{0,4}\b[^.\n]{0,40}\b(?:anweisung|regel|vorgabe|befehl)\w{0,4}",
            r"\b(?:ignore[zr]?|oublie[zr]?)\b[^.\n]{0,40}\b(?:instructions|consignes"
            r"|r[eè]gles)\b[^.\n]{0,30}\b(?:pr[eé]c[eé]dent"
            r"|ci-dessus|ant[eé]rieur)",
            r"\b(?:ignor[ae]|ignorar|olvida|descarta)\b[^.\n]{0,30}\b(?:instruc\w{1,8}|reglas|regras|ordens"
            r"|[oó]rdenes)\b",
            r"\b(?:ignora|dimentica)\b[^.\n]{0,30}\b(?:istruzioni|regole)\b",
            r"игнорируй\w{0,4}[^.\n]{0,40}(?:инструкци|указани|правил)",
            r"(?:忽略|无视|忘记|忽視|無視)[^。\n]{0,6}(?:之前|以上|先前|上述|上面|前面|所有|系统|系統|原有|你的)[^。\n]{0,6}(?:指令|指示|规则|規則|说明|說明|提示)",
            r"(?:指示|命令|ルール)[^。\n]{0,8}(?:無視|忘れ)",
            r"(?:지시|명령|규칙)[^.\n]{0,8}(?:무시|잊)",
        ),
        can_be_negated=False,
    ),
    Rule(
        "new role",
        any_of(
            r"\byou are now\b",
            r"\bfrom now on,? (?:you|act|always|never|every|all)\b",
            r"\b(?:act|behave|respond) as (?:if you were )?(?:an? |the )?(?:unrestricted|unfiltered|root|admin"
            r"|administrator|system"
            r"|developer mode|dan)\b",
            r"\bpretend (?:to be|that you|you)\b",
            r"\b(?:developer|god|dan|jailbreak|unrestricted) mode\b",
            r"\b(?:new|updated|revised|real|actual|true) (?:system )?(?:instructions?|prompt|directives?)\s*(?::"
            r"|are|is|follow)",
            r"\byour (?:new|real|true|actual|only) (?:task|goal|objective|instructions?|purpose|role|job)\b",
        ),
        can_be_negated=False,
    ),
    Rule(
        "forged delimiter",
        any_of(
            r"<\|?/?\s?(?:im_start|im_end|system|assistant|user|endoftext|eot_id|start_header_id)\|?>",
            r"\[/?inst\]|<</?sys>>|\[/?system\]",
            r"</?(?:swarm-memory[\w-]{0,20}|system[\w-]{0,20}|instructions?|tool_results?|function_results?"
            r"|function_calls?|invoke"
            r"|antml[:\w]{0,20}|untrusted[\w-]{0,20}|trajectory|memory|memories|notes?)\s?/?>",
            r"(?:^|\n)\s{0,8}#{0,4}\s?(?:system|developer|assistant) ?(?:prompt|message|override|note|notice"
            r"|instructions?)?\s?:",
            r"\b(?:end|begin) of (?:the )?(?:trajectory|transcript|notes|memory|memories|untrusted|user input"
            r"|data|tool output|system)\b",
            r"-{3}\s{0,4}(?:end|begin|system|new)\b(?![a-z ]{0,20} (?:certificate|key|message|signature)\b)"
            r"[^\n]{0,40}-{3,}",
        ),
        can_be_negated=False,
    ),
    Rule(
        "aimed at the judge",
        any_of(
            r"\b(?:judge|grader|evaluator|verdict|label|grading|distiller)\b[^.\n]{0,60}\b(?:must|should|will"
            r"|shall|is|has to"
            r"|output|return|answer|say|emit|respond|be|as|=)\b[^.\n]{0,25}\b(?:success(?:ful)?|passed|correct"
            r"|1\.0|100 ?%)",
            r"\b(?:output|return|answer|respond with|emit|print"
            r"|say)\b[^.\n]{0,20}[\"'{:]{0,3}\s?(?:label[\"': ]{0,4})?\bsuccess\b"
            r"[^.\n]{0,60}\b(?:verdict|label|confidence|judge|json|regardless|whatever)\b",
            r"\b(?:mark|label|grade|score|classify|judge|rate|count|treat|record)\b[^.\n]{0,20}\b(?:this"
            r"|the) (?:task|run|trajectory"
            r"|attempt|session|rollout|transcript|conversation|episode)\b[^.\n]{0,20}\b(?:as|a"
            r"|with)\b[^.\n]{0,15}\b(?:success|passed"
            r"|complete|correct|1\.0|full marks)",
            r"\b(?:reward|full marks|highest score|maximum confidence"
            r"|confidence (?:of )?1\.0)\b[^.\n]{0,50}\b(?:this|regardless)\b",
            r"\bregardless of (?:the )?(?:evidence|outcome|result|tests?|errors?)\b",
        ),
    ),
    Rule(
        "aimed at the memory",
        any_of(
            r"\b(?:save|store|add|write|remember|persist|memori[sz]e|commit|insert|distill|extract"
            r"|keep)\b[^.\n]{0,40}\b(?:this|following"
            r"|it|rule|note|sentence|instruction)\b[^.\n]{0,40}\b(?:your |the |long[- ]term "
            r"|agent'?s? )?(?:memory|memories|memory bank"
            r"|strategy bank|reasoning ?bank|knowledge base|permanently|forever|for all future|in (?:all "
            r"|every )?future)\b",
            r"\b(?:this|the following) (?:rule|strategy|note|memory|instruction|item)s? (?:overrides?|supersedes?"
            r"|takes? precedence"
            r"|has priority|outranks?|replaces? all|must (?:always|never) be)\b",
            r"\b(?:all|every|any) future (?:sessions?|tasks?|agents?|runs?|conversations?)\b[^.\n]{0,40}\b(?:must"
            r"|shall|should|will)\b",
            r"\bhighest[- ](?:priority|trust|confidence) (?:rule|strategy|memory|note|instruction)",
            r"\b(?:delete|forget|erase|purge|archive|remove)\b[^.\n]{0,20}\b(?:all|every|other"
            r"|your)\b[^.\n]{0,15}\b(?:memories"
            r"|strategies|notes|guardrails)\b",
        ),
    ),
    Rule(
        "speaks to a model",
        any_of(
            rf"\b(?:dear|attention|attn|hey|hello|greetings|note (?:to|for)|message (?:to|for)"
            rf"|instructions? (?:to|for)|reminder (?:to|for)"
            rf"|notice (?:to|for)|psa for)[,: ]{{1,3}}(?:any |all |the |every |other )?(?:future )?(?:coding "
            rf"|reading |helpful )?{_MODELS}\b",
            rf"\bif you are (?:an? |the )?(?:coding |helpful )?{_MODELS}\b",
            rf"\b(?:any|every|all) (?:coding |helpful )?{_MODELS} (?:reading|processing|seeing|that reads?"
            rf"|who reads?|must|should|shall)\b",
            r"\bas an? (?:ai|llm|language model)\b",
        ),
        can_be_negated=False,
    ),
    Rule(
        "concealment",
        any_of(
            rf"\b(?:do not|don't|never|without|avoid|refrain from|no need to)\s(?:ever |first )?(?:tell|inform"
            rf"|mention|notif|alert|reveal"
            rf"|disclos|let)\w{{0,4}}\b(?![^.\n]{{0,80}}\b(?:until|before|unless|yet|that you (?:have"
            rf"|did)))[^.\n]{{0,25}}\b{_PEOPLE}\b",
            r"\bwithout\s(?:asking|prompting|waiting for|seeking|requesting)\b[^.\n]{0,25}\b(?:permission"
            r"|confirmation|approval|consent)\b",
            r"\b(?:silently|secretly|covertly|stealthily|unnoticed|behind the scenes)\b[^.\n]{0,30}\b(?:send"
            r"|upload|post|add|append|run|execute"
            r"|install|copy|forward|exfiltrat|collect|include|write|push|approve|insert|change|modify"
            r"|delete)\w{0,4}\b",
            r"\b(?:hide|conceal|keep)\b[^.\n]{0,25}\b(?:this|it|the (?:change|step|command"
            r"|action)s?)\b[^.\n]{0,25}\b(?:from"
            r"|secret|hidden)\b",
            r"\b(?:delete|clear|wipe|remove)\b[^.\n]{0,20}\b(?:shell|bash|command) history\b|\bunset histfile\b"
            r"|\bhistory -c\b",
        ),
        can_be_negated=False,
    ),
    Rule(
        "exfiltration",
        any_of(
            rf"\b(?:send|post|upload|forward|e-?mail|transmit|exfiltrat\w{{1,4}}|leak|share|push|copy|publish"
            rf"|paste|append|include|embed|put"
            rf"|attach|beacon|report|submit|pipe|dump|curl|wget"
            rf"|encode)\b[^.\n]{{0,60}}{_SECRETS}[^\n]{{0,80}}{_AWAY}",
            rf"{_SECRETS}[^.\n]{{0,60}}\b(?:to|into|at|via|in)\b[^.\n]{{0,20}}{_AWAY}",
            r"\b(?:curl|wget|nc|ncat|netcat|invoke-webrequest|scp|rsync)\b[^\n]{0,120}(?:\$\(|<\(|@"
            r"|\$\{?)\s?(?:cat |env|printenv|\w{0,40}(?:key"
            r"|token|secret|pass)|[~./\w]{0,60}(?:\.env|\.ssh|id_rsa|\.aws|\.netrc|\.npmrc))",
            r"\b(?:env|printenv|cat [~./\w]{0,60}(?:\.env|id_rsa|credentials|\.netrc|\.npmrc|shadow)|tar\b[^\n"
            r"|]{0,80})\s?\|[^\n]{0,80}\b(?:curl|wget|nc"
            r"|ncat|netcat|openssl|mail|sendmail|xxd)\b",
            r"!\[[^\]\n]{0,200}\]\(\s?https?://|<img\b[^>\n]{0,200}\bsrc\s?=",
            r"\bhttps?://[^\s)]{1,200}[?&][\w-]{1,30}=(?:\{|\$|<|%7b|\[)[^\s)]{0,60}",
        ),
    ),
    Rule(
        "code from elsewhere",
        any_of(
            rf"\b(?:curl|wget|fetch|iwr|irm|invoke-webrequest|invoke-restmethod|http)\b[^\n"
            rf"|;]{{0,200}}\|\s?(?:{_SHELL})",
            r"\b(?:bash|sh|zsh|eval|source|python3?|perl|ruby|node|\.)\b[^\n]{0,12}[\"'(`$<]{1,4}\(?\s?(?:curl"
            r"|wget|fetch)\b",
            r"\b(?:iex|invoke-expression)\b[^\n]{0,20}\(",
            r"\bbase64\s(?:-d|--decode|-di)\b[^\n|]{0,60}\|\s?(?:sudo )?(?:ba|z|da)?sh\b",
            r"\b(?:exec|eval|compile|system|popen|subprocess\.\w{1,12}|os\.system)\s?\(\s?(?:urllib|requests"
            r"|urlopen|base64|bytes\.fromhex|codecs"
            r"|__import__|fetch|atob)",
            r"\b(?:download|fetch|retrieve)\b[^.\n]{0,80}\b(?:https?://|script|binary|installer"
            r"|payload)[^.\n]{0,60}\b(?:and|then)\b[^.\n]{0,15}\b(?:run"
            r"|execute|source|chmod)\b",
            r"\b(?:decode|decrypt|unpack|deobfuscate)\b[^.\n]{0,50}\b(?:and|then)\b[^.\n]{0,15}\b(?:run|execute"
            r"|follow|obey|evaluate)\b",
            r"\b(?:nc|ncat|netcat)\b[^\n]{0,40}\s-\w{0,4}e\b|/dev/tcp/|\bbash -i\b[^\n]{0,20}>&|\breverse shell\b",
            r"\b(?:pip3?|npm|pnpm|yarn|gem|cargo|uv|go|npx|uvx|bun)\b[^\n]{0,60}\s(?:--(?:extra-)?index-url|-i"
            r"|--registry|--find-links|git\+)?[= ]?"
            r"(?:git\+)?https?://(?!(?:pypi\.org|registry\.npmjs\.org|files\.pythonhosted\.org|github\.com"
            r"|registry\.yarnpkg\.com)\b)",
        ),
    ),
    Rule(
        "guards switched off",
        any_of(
            r"--dangerously-skip-permissions|dangerouslydisablesandbox|bypasspermissions|--yolo\b",
            r"\b(?:disable|turn off|switch off|deactivate|remove|bypass|circumvent|skip|kill"
            r"|stop)\b[^.\n]{0,25}\b(?:sandbox(?:ing)?|permission (?:checks?"
            r"|prompts?)|authentication|authori[sz]ation|access control|security (?:checks?|scan\w{0,4}|review"
            r"|policy|controls?|features?)|safety"
            r" (?:checks?|rules?|filters?)|guardrails?|content filters?|antivirus|firewall|code review"
            r"|audit log\w{0,4}|malware scan\w{0,4}"
            r"|secret scan\w{0,4}|selinux|apparmor|csrf|rate limit(?:er|ing)? check)\b",
            r"\b(?:do not|don't|never|no need to|skip|without)\b[^.\n]{0,12}\b(?:verify\w{0,3}|check\w{0,3}"
            r"|validat\w{1,3}|verification of)\b[^.\n]{0,20}"
            r"\b(?:signatures?|checksums?|certificates?|integrity|hash(?:es)?|provenance)\b",
            r"\b(?:verify\s?=\s?false|rejectunauthorized\s?:\s?false|node_tls_reject_unauthorized\s?=\s?[\"']?0"
            r"|git_ssl_no_verify|--no-check-certificate"
            r"|strict_?host_?key_?checking[= ]no|--trusted-host|http\.sslverify[= ]false|--no-gpg-sign"
            r"|--allow-unauthenticated)",
            r"\b(?:auto-?approve|always (?:approve|allow|accept|grant))\b[^.\n]{0,40}\b(?:all|every|any|commands?"
            r"|tools?|permissions?|requests?)\b",
            r"\bchmod\b[^\n]{0,10}\s0?777\s(?:/|~|\$home|-r)|\bchmod -r 0?777\b|\bsetuid\b|\bchmod\s(?:u\+s|4755)\b",
        ),
    ),
    Rule(
        "destruction",
        any_of(
            r"\brm\s(?:-\w{1,6}\s){1,3}(?:--no-preserve-root\s)?(?:/(?:\s|\*|$)|~|\$home|\.git\b|/(?:etc|home|usr"
            r"|var|root)\b|\*(?:\s|$))",
            r"\bmkfs(?:\.\w{2,5})?\b|\bdd\b[^\n]{0,60}\bof=/dev/|\bshred\b[^\n]{0,30}/dev/|:\(\)\s?\{\s?:\|:&\s?\};:",
            r"\b(?:delete|drop|wipe|erase|destroy|truncate|purge)\b[^.\n]{0,25}\b(?:production|prod|live"
            r"|all (?:the )?(?:backups?|users?|records?|branches"
            r"|customer|data(?:bases?)?|repositor)|backups?|entire (?:disk|database|repository|bucket)"
            r"|home directory)\b",
            r"\bgit push\b[^\n]{0,40}(?:--force(?![\w-])|-f\b)[^\n]{0,40}\b(?:main|master|production|release)\b",
            r"\bgit push\b[^\n]{0,40}\b(?:main|master|production|release)\b[^\n]{0,20}(?:--force(?![\w-])|-f\b)",
        ),
    ),
    Rule(
        "foothold",
        any_of(
            r"/etc/sudoers|\bnopasswd\b|/etc/(?:shadow|crontab|ld\.so\.preload)",
            r"(?:\b(?:add|append|appends|write|writes|put|puts|insert|install|copy|paste|echo|cat|printf|keep|leave|place)"
            r"\b[^.\n]{0,80}|>{1,2}\s?\S{0,40})(?:\bauthorized_keys\b|/etc/passwd)",
            r"\b(?:add|append|write|insert|put|install|create|register|echo)\b[^.\n]{0,60}(?:\bcrontab\b"
            r"|\bcron job\b|\blaunchagents?\b|systemd (?:unit|service)"
            r"|~?/?\.(?:bashrc|zshrc|profile|bash_profile)\b|\bstartup folder\b|\.git/hooks|\.claude/settings"
            r"|\.mcp\.json|\.cursorrules)[^\n]{0,100}"
            r"(?:https?://|curl|wget|base64|\bnc\b|allow|bypass|hook|payload|alias (?:sudo|git|ssh))",
            r"\b(?:create|add)\b[^.\n]{0,20}\b(?:hidden (?:user|account)|admin(?:istrator)? (?:user|account))\b",
            r"\b(?:create|add|leave|keep|install|plant|open|build|put|hide|insert|ship|use|place)\w{0,3}\b[^.\n]{0,40}"
            r"\bback ?door\b",
        ),
    ),
    Rule(
        "trigger phrase",
        any_of(
            r"\b(?:when|whenever|if|once|every time|as soon as)\b[^.\n]{0,40}\b(?:the |this |a )?(?:phrase"
            r"|magic word|code ?word|trigger(?: word| phrase)?|passphrase"
            r"|secret word|keyword [\"'])[^.\n]{0,80}\b(?:always|immediately|first|must|will|reply|respond|output"
            r"|run|execute|send|approve|say|do|call)\b",
        ),
    ),
    Rule(
        "borrowed authority",
        any_of(
            r"\b(?:system|security|admin(?:istrator)?|it department|compliance|anthropic|openai|ciso|ceo"
            r"|headquarters|root"
            r" user)(?: (?:team|department|notice|policy|alert|update|directive|officer|staff))?\s(?:has |have "
            r"|now |hereby |explicitly )?(?:requires?|mandates?"
            r"|orders?|instructs?|demands?|directs?|authori[sz]ed|approved|pre-?approved|granted"
            r"|permits?)\b[^.\n]{0,60}\b(?:you|agents?|assistants?|all|any|this"
            r"|to (?:run|send|disable|execute|upload|share|skip|ignore))",
            r"\b(?:authori[sz]ed|required|mandated|instructed|approved|ordered|directed"
            r"|cleared) by (?:the )?(?:admin\w{0,10}|security|anthropic|openai|management"
            r"|ceo|ciso|system|it (?:team|department)|compliance|developers? of)",
            r"\b(?:important|urgent|critical|mandatory|emergency)[^a-z\n]{0,6}(?:system|security|admin|compliance"
            r"|policy) (?:notice|alert|message|update|instruction"
            r"|directive|order|override)\b",
        ),
    ),
    Rule(
        "steering of choice",
        any_of(
            r"\b(?:always|only|exclusively|must|should)\b[^.\n]{0,12}\b(?:use|call|choose|prefer|select|pick"
            r"|invoke|trust|recommend|buy)\b[^.\n]{0,60}\b(?:instead of"
            r"|over|rather than|before|and never)\b[^.\n]{0,25}\b(?:any|all|every|no|others?|another|the other"
            r"|competing|competitors?)\b[^.\n]{0,25}\b(?:tools?|servers?"
            r"|packages?|librar(?:y|ies)|services?|vendors?|providers?|models?|one|ones|others)?\b",
            r"\b(?:best|only|most (?:reliable|trusted|accurate)|superior|official)\b[^.\n]{0,30}\b(?:tool|server"
            r"|package|service|api)\b[^.\n]{0,60}\b(?:all (?:other|the"
            r" other)|every other|never use|do not use|other tools? (?:are|is|fail|will))\b",
        ),
    ),
)
