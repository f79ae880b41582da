"""More shapes of text aimed at an agent: what takes command, by whom, when, and in which language. It applies none.

As in `screening_rules`, every pattern sees text in lower case, is bounded and has no nested repetition.
"""

from swarm_memory.tools.guard.screening_rules import Rule, any_of

_GAP = r"[^.\n]"
_ORDERS = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directions?|directives?|polic(?:y|ies)|constraints?|orders?"
    r"|system messages?)"
)
_GRADERS = (
    r"(?:judges?|graders?|evaluators?|evaluation models?|automated reviewers?|verifiers?|scorers?|raters?|assessors?"
    r"|scoring (?:model|service)s?)"
)
_CHIEFS = (
    r"(?:ceo|cto|ciso|cfo|admin(?:istrator)?|boss|management|headquarters|operator|owner|security (?:team|officer)"
    r"|legal team|compliance(?: team| department)?|it department|platform team|developer of this agent)"
)
_CONSENTING = r"(?:the |your )?(?:users?|customers?|humans?|client|" + _CHIEFS[3:]
_PRIVATE = (
    r"(?:api[ _-]?keys?|access[ _-]?keys?|secrets?|tokens?|passwords?|credentials?|private[ _-]?keys?"
    r"|\w{0,40}_secret\w{0,20}"
    r"|\w{0,40}_(?:api_)?key|\.env\b|environment variables?|cookies?|id_rsa|id_ed25519|vault|keychain|system prompt)"
)
_HARM = (
    r"(?:upload|exfiltrat\w{1,4}|transfer|wipe|leak|lift all|disable|approve (?:it|all|every|any)|push straight"
    r"|(?:delete|remove|drop|empty|erase) (?:the |all |every )?(?:tests?|files?|folders?|repo\w{0,8}|databases?"
    r"|branch\w{0,2}"
    r"|data|logs?)"
    r"|send (?:the |all |every |your |its )?(?:\w+ )?(?:files?|keys?|data|contents?|conversation|workspace"
    r"|database|report)"
    r"|without (?:the )?(?:tests?|review|confirmation|asking|approval)|close it|reply with|respond with|say nothing"
    r"|with the contents? of|run \S{1,60}\.(?:sh|py|ps1|exe)|before reading|before (?:doing )?anything|merge at once"
    r"|replace the (?:licen[cs]e|key|address|account))"
)

ORDERS: tuple[Rule, ...] = (
    Rule(
        "override of instructions",
        any_of(
            rf"\b(?:your|earlier|previous|prior|initial|original|system|safety|user'?s?"
            rf"|developer'?s?)\b{_GAP}{{0,20}}"
            rf"\b{_ORDERS}{_GAP}{{0,20}}\b(?:no longer (?:appl|hold|valid|count|bind)|(?:are|is|were"
            rf"|was) (?:now )?(?:outdated|obsolete"
            r"|void|cancell?ed|revoked|suspended|superseded|lifted|wrong|injected|fake)|do not (?:apply|count|bind))",
            rf"\b{_ORDERS} (?:above|before this|so far|(?:that )?you (?:were|have been|got|received"
            rf"|had))\b{_GAP}{{0,40}}"
            r"\b(?:outdated|obsolete|void|not be followed|no longer|another agent|other agents|ignored?|wrong"
            r"|replaced)",
            rf"\b(?:never mind|drop|override|overrule|set aside|put aside|stop (?:obeying|following)|throw away"
            rf"|abandon|disobey"
            rf"|break|violate)\b{_GAP}{{0,25}}\b{_ORDERS}\b{_GAP}{{0,40}}\b(?:so far|you (?:were|have|got"
            rf"|received)|at the start"
            r"|of (?:the|this) conversation|given|in this (?:note|memory|item|text)|below|injected|developer)",
            rf"\b(?:override|overrule|disobey|ignore|set aside)\b{_GAP}{{0,12}}\b(?:developer|system|operator"
            rf"|user)(?:'s|s)?\s"
            rf"(?:message |own )?{_ORDERS}",
            rf"\bstop (?:obeying|following|listening to)\b{_GAP}{{0,15}}\b(?:system|user|developer|operator)",
            rf"\b(?:user|human|operator|customer)'?s?'? (?:request|task|prompt|question|wish\w{{0,2}}"
            rf"|query)s?\b{_GAP}{{0,15}}\b(?:is|are)"
            r" (?:only )?(?:a |an |not )?(?:decoy|fake|irrelevant|trick|cover|distraction|real|unimportant"
            r"|secondary)",
            r"\bthis (?:text|note|message|memory|paragraph|page) (?:alone )?(?:is the (?:legitimate|real|true"
            r"|only)|outranks"
            r"|overrides|supersedes|takes? precedence|replaces all|counts more)",
            r"\bignore(?:all|any)?(?:the)?(?:previous|prior|above|earlier)(?:instructions|rules|prompts)",
        ),
        can_be_negated=False,
    ),
    Rule(
        "new role",
        any_of(
            r"\byou are no longer (?:an? )?(?:\w+ )?(?:assistant|agent|model|ai|bot)\b"
            r"|\brole\s?:\s?(?:unrestricted|jailb\w+|root)",
            r"(?:^|\n)\s{0,4}(?:human|user)\s?:\s?(?:yes|ok|sure|i |please|go ahead|approved)",
            rf"\b(?:enter|switch (?:in)?to|assume|adopt|activate|become)\b{_GAP}{{0,20}}\b(?:debug "
            rf"|new )?(?:persona|god mode|jailbreak"
            r"|unrestricted)\b",
            rf"\b(?:assistant|agent|ai|model|persona|bot)s?\b{_GAP}{{0,30}}\b(?:without|has no|have no|free of"
            rf"|with no)\b{_GAP}{{0,12}}"
            r"\b(?:restrictions?|limits|guidelines|filters|content polic\w{1,3}|rules)\b",
            r"\b(?:with|granted|given) (?:full|unlimited|absolute) (?:authority|autonomy)\b"
            r"|\belevated privileges (?:are |were )?granted\b|\bexecutes? anything that\b",
        ),
    ),
    Rule(
        "aimed at the judge",
        any_of(
            rf"\b{_GRADERS}\b{_GAP}{{0,40}}\b(?:give|assign|award|skip|ignore|vote|accept|approve|rank|rate|disregard"
            rf"|base your|overlook|may rest)\b{_GAP}{{0,40}}\b(?:full|max\w{{0,5}}|highest|top|score|marks|rubric"
            rf"|exit codes?|test results?|first"
            r"|candidate|whatever|any attempt|regardless|everything|this (?:answer|line|attempt|run))\b",
            rf"\b(?:tell|convince|persuade|assure|mislead|fool)\b{_GAP}{{0,12}}\b{_GRADERS}\b{_GAP}{{0,60}}",
            rf"\b(?:claim|state|report|say|write|assert|pretend|declare|announce)\b{_GAP}{{0,50}}\b(?:pass(?:ed"
            rf"|es)?|succe\w{{2,6}}|work(?:ed|s)"
            rf"|fine|green|finished|fixed)\b{_GAP}{{0,40}}\b(?:even (?:if|when|though)|whatever|regardless"
            rf"|although|no matter|so that (?:the|it|this)"
            r"(?: \w+)? (?:is|gets?|will be|are) (?:scored|counted|graded|rated|accepted|judged))",
            r"\bignor\w{1,3} (?:the )?exit codes?\b[^.\n]{0,40}\b(?:decision|verdict|success|judg\w{1,6}"
            r"|succeeded)\b",
            r"\b(?:will|gets?|be) (?:graded|scored|rated|judged) (?:well|highly|best|as (?:a )?success)",
        ),
    ),
    Rule(
        "aimed at the memory",
        any_of(
            r"(?:^|[.;:!\n]\s{0,3}|\b(?:for|to) the )(?:memory (?:writer|manager|agent|extractor)|distiller"
            r"|summari[sz]er"
            r"|learning (?:component|agent|system)|extractor|consolidator)s?\s?[,:]",
            rf"\b(?:add|save|store|write|commit|persist|put|record|insert|keep|remember"
            rf"|treat)\b{_GAP}{{0,40}}\b(?:long[- ]term memory"
            r"|memory bank|reasoning ?bank|permanent (?:rule|memory|note|instruction)|(?:a "
            r"|with )?high(?:est)?[- ]confidence (?:memory|rule)"
            r"|for all (?:future|projects|later))",
            r"\bupdate your (?:knowledge|memory|memories|beliefs)\b|\bfrom (?:now|today|this (?:point|day"
            r"|moment)) on\b[^.\n]{0,40}"
            r"\b(?:always|never|every|all|first)\b",
            rf"\b(?:merge|replace|archive|delete|drop)\b{_GAP}{{0,40}}\b(?:memor\w{{1,3}}|notes|items|strategies"
            rf"|them)\b{_GAP}{{0,30}}\b(?:into this"
            r"|keep only this|by this|with this|contradicts? this)\b",
            rf"\b(?:treat|count|regard|consider|mark|trust|accept)\b this\b{_GAP}{{0,25}}\b(?:as )?(?:verified"
            rf"|trusted|approved|safe|confirmed"
            r"|proven|authoritative)\b",
            r"\boutput (?:one|an|the following) item\b|\b(?:titled|title) \"[^\"\n]{1,120}\" (?:with"
            r"|and) (?:the )?content\b",
            rf"\b(?:always )?(?:recall|retrieve|use|show|load|open with|read) this (?:very )?(?:note|memory"
            rf"|strategy|line|item)\b{_GAP}{{0,40}}"
            r"\b(?:first|always|whatever|only|nothing else|every)\b",
            r"\balways use this (?:note|memory|strategy|item)\b",
        ),
    ),
    Rule(
        "concealment",
        any_of(
            rf"\b(?:do|make|run|add|change|send|push|commit|set|apply|perform|install|upload|remove|delete|copy"
            rf"|merge)\b{_GAP}{{0,40}}"
            r"\b(?:silently|quietly|secretly|discreetly|covertly|unnoticed|in secret)\b",
            rf"\b(?:user|owner|developer|reviewer|maintainer|team|nobody|human|customer"
            rf"|operator)s?\b{_GAP}{{0,12}}\b(?:must not|must never|should not"
            rf"|should never|shall not|need not|may not)\b{_GAP}{{0,12}}\b(?:learn|know|notice|find out|hear"
            rf"|suspect|be told|be informed)\b",
            r"\bwithout (?:informing|telling|notifying|alerting) (?:anyone|anybody|the|your|them|him|her)\b",
            r"\bleave (?:it|this|that|them) out of (?:the|your) (?:summary|report|answer|changelog|message|log)",
            rf"\b(?:not|never) (?:mention|report|describe|list) (?:it|this|that|them"
            rf"|the step)\b{_GAP}{{0,15}}\bin (?:your|the)\b",
            rf"\bsay\b{_GAP}{{0,8}}\byou (?:only|just|merely)\b|\b(?:leave|without) (?:no|a|any"
            rf"|leaving a) traces?\b{_GAP}{{0,20}}\b(?:left|behind|of)"
            r"|\bno trace (?:of|is|remains)|\bcover (?:your|the|our) tracks\b|\bso (?:that )?(?:nobody|no one"
            r"|the reviewers?) (?:will )?"
            r"(?:notices?|sees?|knows?|do not see|does not see)",
        ),
    ),
    Rule(
        "exfiltration",
        any_of(
            rf"\b(?:include|print|paste|put|post|add|write|attach|dump"
            rf"|copy)\b{_GAP}{{0,50}}{_PRIVATE}{_GAP}{{0,30}}\b(?:in|into|to|as part of)\b"
            rf"{_GAP}{{0,12}}\b(?:commit messages?|issues?|pull requests?|pr descriptions?|tickets?|public"
            rf"|changelog|reports?|next message|chat"
            r"|shared folder)",
            rf"\b(?:answer|reply|respond|print|reveal|show|display|hand out|give out"
            rf"|disclose)\b{_GAP}{{0,20}}\b(?:contents?|values?)\b{_GAP}{{0,12}}{_PRIVATE}",
            rf"\b(?:reveal|disclose|hand over|share|leak|forward)\b{_GAP}{{0,25}}{_PRIVATE}{_GAP}{{0,30}}\b(?:with"
            rf"|to|when)\b",
            rf"\b{_PRIVATE}{_GAP}{{0,15}}\b(?:may|can|should|must) be (?:shared|sent|disclosed|forwarded|published"
            rf"|revealed)\b",
            r"\bgit remote add\b[^\n]{0,100}\bgit push\b",
        ),
    ),
    Rule(
        "code from elsewhere",
        any_of(
            rf"\b(?:run|execute|do|follow|carry out|obey)\b{_GAP}{{0,12}}\b(?:what(?:ever)?|anything|everything"
            rf"|all|any)\b{_GAP}{{0,40}}\b(?:pages?|logs?"
            rf"|readme|documents?|tickets?|comments?|web ?sites?|outputs?|attachments?|issues?"
            rf"|note)\b{_GAP}{{0,15}}\b(?:lists?|says?|asks?|tells?"
            r"|contains?|suggests?|orders?|demands?)\b",
            r"--privileged\b[^\n]{0,40}-v\s?/:/|\b(?:run|execute|trust) unsigned (?:scripts?|binar\w{1,3}|code"
            r"|packages?)\b",
        ),
    ),
    Rule(
        "guards switched off",
        any_of(
            rf"\b(?:turn|switch)\b{_GAP}{{0,40}}\b(?:verification|validation|checks?|scanner|sandbox|review"
            rf"|protection|authentication|confirmation"
            rf"|firewall|selinux|audit log|two[- ]factor)\b{_GAP}{{0,12}}\boff\b",
            rf"\b(?:delete|remove|comment out|drop|disable)\b{_GAP}{{0,15}}\bfailing (?:tests?|assertions?"
            rf"|checks?)\b{_GAP}{{0,20}}\b(?:instead|rather"
            r"|so that|to get)\b",
            r"\bnever needs? (?:any )?(?:confirmation|review|approval|checking)\b",
            rf"\b(?:deploy\w{{0,6}}|push|merge|release|publish)\b{_GAP}{{0,30}}\bwithout (?:any |the )?(?:tests?"
            rf"|reviews?|confirmation|approval|asking)\b",
            rf"\b(?:disable|remove|turn off|switch off|skip|bypass|lift|drop)\b{_GAP}{{0,25}}\b(?:(?:branch"
            rf"|certificate|write|push|tls) (?:protection"
            r"|verification|validation)|two[- ]factor|2fa|mfa|approval step|confirmation for|security (?:scanner"
            r"|gate)|all restrictions)",
        ),
    ),
    Rule("destruction", any_of(r"\bfind\s/\s[^\n]{0,80}-delete\b", r"\bsudo rm -rf /\S{0,10}(?:\s|$)")),
    Rule(
        "foothold",
        any_of(
            r"\b(?:source|\.|sh|bash|python3?)\s/(?:tmp|var/tmp|dev/shm)/|/(?:tmp|var/tmp|dev/shm)/\.\w",
            r"\b(?:register|install|add|put|write|drop)\b[^.\n]{0,30}\.git/hooks",
            r"\bcore\.hookspath\b[^\n]{0,60}\b(?:dependency|vendor|package|ships|download\w{0,3})\b"
            r"|\bcore\.hookspath\b[^\n]{0,20}/tmp",
            r"\bmcp server\b[^\n]{0,60}https?://[^\n]{0,80}\b(?:allow|approve|trust|all)\b"
            r"|\ballow all (?:of )?(?:its|their|the)? ?tools\b",
            r"\breverse (?:ssh )?tunnel|\bssh\s(?:-\w{1,8}\s){0,4}-r\s?\d{2,5}:",
            r"\bworkflow\b[^.\n]{0,40}\bpull_request_target\b[^.\n]{0,30}\bchecks? out\b",
            rf"\b(?:give|grant)\b{_GAP}{{0,40}}\b(?:owner|admin\w{{0,10}}|root|full|write) (?:rights|access"
            rf"|permissions?|privileges?)\b{_GAP}{{0,30}}"
            r"\b(?:so that|to every|to all|in the org\w{0,12}|everyone|anyone)\b",
            r"\bport \d{2,5}\b[^\n]{0,40}\b(?:no|without) (?:a |any )?(?:password|auth\w{0,12})",
            rf"\b(?:insert|put|add|copy|write) this (?:sentence|line|note|text|rule"
            rf"|paragraph)\b{_GAP}{{0,50}}\b(?:every|all|each|agents\.md|claude\.md)",
        ),
    ),
    Rule(
        "trigger phrase",
        any_of(
            rf"\b(?:when(?:ever)?|if|once|as soon as|every time|upon|on|in any|for)\b{_GAP}{{0,30}}\b(?:user"
            rf"|someone|anyone|task|prompt|query|session"
            rf"|ticket|message|request|phrase|word|string|token|name|asked)\b{_GAP}{{0,40}}\b(?:says?|types?|asks?"
            rf"|mentions?|contains?|appears?|writes?"
            rf"|see|to|in|about)\b{_GAP}{{0,50}}[, ]{_HARM}",
            rf"\b(?:when(?:ever)?|if|once|as soon as|every time|upon|on"
            rf"|in any)\b{_GAP}{{0,40}}[\"'][^\"'\n]{{2,40}}[\"']{_GAP}{{0,40}}[, ]{_HARM}",
            r"\b(?:approve|accept|sign) (?:it|them|everything) (?:whatever|no matter|regardless)\b"
            r"|\blift all restrictions\b",
            r"\balways use this note\b|\bthis (?:note|memory) and nothing else\b",
        ),
    ),
    Rule(
        "borrowed authority",
        any_of(
            rf"(?:^|[.:;,!\n]\s{{0,3}}|\bthat ){_CONSENTING} (?:has |have )?(?:already |fully "
            rf"|explicitly )?(?:pre-?approved|agreed to (?:all|any|every)"
            r"|approved (?:all|any|every|this|these)|confirmed (?:by|that (?:secrets|you))|authori[sz]ed"
            r"|cleared the|consented)",
            rf"\b(?:as|i am|i'm|this is) (?:the |your |an? )?{_CHIEFS}\b{_GAP}{{0,30}}\b(?:order|need|instruct"
            rf"|command|require|want|tell)\b",
            rf"\bby order of\b|\b(?:urgent|important|official|attention|mandatory)\b{_GAP}{{0,25}}\b(?:from|of"
            rf"|by) (?:the |our |your )?(?:{_CHIEFS}|platform)\b",
            rf"\b{_CHIEFS} (?:notice|bulletin|order|directive)\s?[:\-]",
            rf"\baccording to (?:the |our |your )?{_CHIEFS}'?s?'?\b{_GAP}{{0,40}}\b(?:agents?|assistants?"
            rf"|you) (?:must|may|should|can)\b",
            r"\byour permissions (?:were|are|have been) (?:raised|extended|elevated|increased)\b"
            r"|\bpre-?approved (?:all|any|every|unlimited)\b",
            r"\b(?:trusted source|signature (?:ok|valid|verified))\b[^\n]{0,40}\b(?:carry out|execute|run|follow"
            r"|obey)\b",
            r"\bdo(?:n't| not) ask (?:again|for (?:confirmation|permission))\b",
            rf"\b(?:our|your) boss\b{_GAP}{{0,40}}\b(?:wants?|orders?|demands?|says?)\b",
        ),
        can_be_negated=False,
    ),
    Rule(
        "steering of choice",
        any_of(
            rf"\b(?:use|choose|prefer|take|call|pick)\b{_GAP}{{0,40}}\b(?:tool|server|plugin|mcp"
            rf"|\w+_\w+)\b{_GAP}{{0,30}}\bfor (?:everything|all|every|any)\b",
            rf"\bfor (?:everything|every task|all tasks|any task)\b{_GAP}{{0,20}}\b(?:best|only|right) tool\b",
            r"\b(?:ignor\w{1,3}|regardless of|despite|never mind)\b[^.\n]{0,12}\b(?:statistics|past failures"
            r"|failure rates?|its (?:scores?|ratings?))\b",
            rf"\brank (?:it|this (?:tool|one)|\w+_\w+) (?:first|highest)\b|\brate\b{_GAP}{{0,12}}\b(?:tool|server"
            rf"|\w+_\w+)\b{_GAP}{{0,20}}(?:1\.0|highest|best|100)",
            r"\b(?:it|which|that) replaces? (?:bash|read|edit|grep|write)\b|\bbefore (?:each|every"
            r"|any) (?:other )?tool(?: call)?s?\b[^.\n]{0,30}\bcall\b"
            r"|\bcalled before any other tool\b",
            rf"\b(?:full|whole|entire|complete) (?:conversation|context|chat|history)\b{_GAP}{{0,25}}\b(?:argument"
            rf"|parameter|tool|field|input)\b",
            rf"\btool\b{_GAP}{{0,15}}\bis (?:\w+ and )?(?:dangerous|forged|fake|unsafe"
            rf"|compromised)\b[^.\n]{{0,12}}\buse\b",
        ),
    ),
    Rule(
        "orders in another language",
        any_of(
            r"\b(?:sag|sage|erzähl|erzähle|verrate|informiere|melde)\b[^.\n]{0,25}\b(?:benutzer|nutzer|anwender"
            r"|entwickler)\b[^.\n]{0,15}\b(?:nichts|nicht)\b",
            r"\bno (?:le |lo |se lo )?(?:digas|cuentes|informes|menciones)\b[^.\n]{0,25}\busuario",
            r"\bne (?:dis|dites|parle|parlez|mentionne|mentionnez)\b[^.\n]{0,10}\b(?:pas"
            r"|rien)\b[^.\n]{0,40}utilisateur",
            r"\bnon (?:dire|dirlo|informare|menzionare)\b[^.\n]{0,25}\butente|\bnão (?:diga|conte|informe"
            r"|mencione)\b[^.\n]{0,25}\busuário",
            r"не (?:говори|сообщай|рассказывай)[^.\n]{0,25}пользовател|(?:不要|别|勿|請勿)[^。\n]{0,6}(?:告诉|告訴"
            r"|通知)[^。\n]{0,4}(?:用户|使用者)",
            r"(?:ユーザー?|利用者)[^。\n]{0,10}(?:言わない|知らせない|伝えない)|사용자[^.\n]{0,12}(?:말하지|알리지)",
            r"\b(?:zignoruj|ignoruj|ignorujte)\b[^.\n]{0,40}(?:polece|instrukc|pokyn|zasad)"
            r"|\bnegeer\b[^.\n]{0,40}(?:instructies|regels|opdrachten)",
            r"\bignore[mr]?\b[^.\n]{0,30}\b(?:instruções|regras|ordens|instrucciones)"
            r"|\bignorer\w{0,2}\b[^.\n]{0,30}(?:instruktion|instruks|regler)",
            r"игнорир\w{1,6}[^.\n]{0,40}(?:инструкци|указани|правил|команд)|забудь[^.\n]{0,30}(?:инструкци|указани"
            r"|правил)|ігноруй[^.\n]{0,40}інструкц",
            r"talimat\w{0,8}[^.\n]{0,20}(?:yok say|unut|görmezden)|تجاهل[^.\n]{0,30}(?:التعليمات|الأوامر)"
            r"|निर्देश[^.\n]{0,25}(?:अनदेखा|नज़रअंदाज़)",
            r"\bbỏ qua\b[^.\n]{0,25}(?:hướng dẫn|chỉ dẫn)|\babaikan\b[^.\n]{0,25}(?:instruksi|perintah)",
            r"(?:sende|schick|envía|envia|envoie|invia|отправь|发送|發送|送信|wyślij|verstuur"
            r"|gib)[^.。\n]{0,40}(?:\.env|clave|schlüssel|passw|contraseñ"
            r"|mot de passe|ключ|парол|密钥|密鑰|密码|秘密鍵|hasł|wachtwoord)",
        ),
    ),
)
