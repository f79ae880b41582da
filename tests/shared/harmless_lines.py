"""Lines of everyday development that look a little like secrets, made at run time from a seed."""

import random
from collections.abc import Iterator

from secret_lines import HEX, LOWER, WORD, run, uuid

FIXED = [
    "git@github.com:acme/shop.git",
    "uses: actions/checkout@v4.2.1",
    "npm install react@18.2.0 react-dom@18.2.0",
    "pip install 'numpy==1.26.4' --no-cache-dir",
    "password = getpass.getpass()",
    "password: str",
    "def login(user: str, password: str) -> Token:",
    "connect(user=user, password=password, token=token)",
    "token = request.headers.get('X-Token')",
    "api_key = os.environ['API_KEY']",
    "api_key=os.getenv('OPENAI_API_KEY')",
    "const apiKey = process.env.API_KEY;",
    "export API_KEY=$MY_KEY",
    "export TOKEN=${{ secrets.DEPLOY_TOKEN }}",
    "PASSWORD=<your password here>",
    "password: ********",
    "secret: [REDACTED]",
    "Error: invalid password",
    "password: must be at least 12 characters long",
    "The token expired, please log in again",
    "max_tokens=4096 temperature=0.2",
    "input_tokens: 10234, output_tokens: 523",
    "tokenizer = AutoTokenizer.from_pretrained('bert-base-uncased')",
    "next_token: str | None = None",
    "sort_key = lambda item: item.created_at",
    "primary_key=True, foreign_key='users.id'",
    "key: created_at, order: desc",
    "cache_key = f'user:{user_id}'",
    "keyboard shortcut: ctrl+shift+p",
    "monkey_patch = True",
    "secret_manager = SecretManager(project)",
    "from app.auth import token_required",
    "assert response.status_code == 401",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer <token>",
    "headers={'Authorization': f'Bearer {token}'}",
    "authorization: Optional[str] = None",
    "curl -u $USER:$PASS https://host/path",
    "postgres://user:${DB_PASSWORD}@localhost/app",
    "postgresql://localhost:5432/app",
    "redis://cache:6379/0",
    "http://localhost:3000/api/v1/users?page=2",
    "ssh -i ~/.ssh/id_rsa deploy@build-7",
    "-----BEGIN CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----",
    "sk-learn is spelled scikit-learn",
    "the task-queue-worker-for-invoices-and-receipts service",
    "hf_hub_download(repo_id='a/b', filename='config.json')",
    "npm_config_registry=https://registry.npmjs.org/",
    "pk_live and sk_live are the prefixes of the keys",
    "re_compile_all_patterns_once(patterns)",
    "key-value-store-with-compaction-and-snapshots",
    "fc-list | grep -i mono",
    "SKIPPED [3] tests/test_auth.py:12: needs network",
    "@app.route('/login', methods=['POST'])",
    "@pytest.mark.parametrize('password', ['a', 'b'])",
    "icon@2x.png and icon@3x.png",
    "systemctl restart getty@tty1.service",
    "-e git+https://github.com/acme/lib@main#egg=lib",
    "@@ -12,7 +120,8 @@ def login(user):",
    "+    return 4111",
    "1234-5678 are the line numbers",
    "call 911 or 112",
    "2024-05-15 12:00:00,123 INFO worker 7 done in 0.123456789 s",
    "pi = 3.14159265358979323846",
    "192.168.10.25:8080",
    "::1 localhost ip6-localhost",
    "UTC+0530",
    "ISBN 978-3-16-148410-0",
    "v2.14.0-rc.1+build.20240515",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "class PasswordResetToken(models.Model):",
    "reset_password_url = reverse('password-reset')",
    '<input type="password" name="password" id="password">',
    '{"type": "object", "required": ["password", "token"]}',
    "x-api-key: {{api_key}}",
    "auth: true",
    "session_key = None",
    "signature: (a: int, b: int) -> int",
    "SECRET_KEY = config('SECRET_KEY')",
    "client_secret=settings.client_secret",
    "access_token: string;",
    "--token-file /run/secrets/token",
    "mysql -u root -p shop < dump.sql",
    "docker login -u me --password-stdin",
    "passwd: password updated successfully",
    "compass=north bypass=1",
    "secret_length = X25519.secret_length",
    "KeyPair = X25519.KeyPair",
    'key_id = "0b0ea5b9-6f7c-4d1f-9d0c-2a9c1a1f8a11"',
    "request_id: 0b0ea5b9-6f7c-4d1f-9d0c-2a9c1a1f8a11",
    "token_env: OPENAI_API_KEY",
    "password = DB_PASSWORD",
    "org.acme.token:secret-api:1.2.3-rc1",
    "message-api:rc0.15.0_20231217_1420-SNAPSHOT",
    "dist/assets/index-BfR2x9aKq1.js 12 kB",
    "enter the password again, the password is required",
    "the password sha256 hashing of v2",
    "docker run -u 1000:1000 alpine",
    "identified by `key` in the sorted dict",
    "we have to pass `extras` along",
    "the options --username and --password requires a terminal",
    "self._passphrase_userdata = userdata",
    "fails the call (2026-07-28 caching",
    "public_key = 'q7Lm2Zt9XcVb4NaSdFgHjKlQwErTyU1iOp3'",
]


def random_lines(seed: int, times: int) -> Iterator[str]:
    """Yield lines with hashes, ids, versions, paths and numbers."""
    random_ = random.Random(seed)
    for _ in range(times):
        number = random_.randint(10**9, 10**13 - 1)
        yield f"commit {run(HEX, 40)(random_)}"
        yield f"{run(HEX, 7)(random_)} Fix the parser for empty input"
        yield f"sha256:{run(HEX, 64)(random_)}  dist/app-1.2.{number % 90}.tar.gz"
        yield f'integrity "sha512-{run(WORD + "+/", 86)(random_)}=="'
        yield f"request_id={uuid(random_)} status=200"
        yield f"container {run(HEX, 12)(random_)} started in {number % 999} ms"
        yield f"created_at: {number} updated_at: {number + 5}"
        yield f"/var/lib/app/cache/{number % 90}/{run(HEX, 38)(random_)}.bin"
        yield f'File "/srv/app/src/module_{number % 50}.py", line {number % 900}, in handle_{run(LOWER, 6)(random_)}'
        yield f"test_login_{number % 77}[chrome-{number % 120}.0.{number % 9999}] PASSED [ {number % 100}%]"
        yield f'etag: W/"{run(HEX, 16)(random_)}"'
        yield f"0x{run(HEX, 12)(random_)} in main () at src/main.c:{number % 500}"
        yield f"order {number % 10**8} of customer {number % 10**6}: {number % 500}.{number % 99:02d} EUR"
        yield f"index {run(HEX, 7)(random_)}..{run(HEX, 7)(random_)} 100644"
        yield f"ETA 00:{number % 60:02d}:{number % 59:02d} {number % 100}.{number % 10} MB/s"
        yield f"worker-{run(LOWER, 5)(random_)}-{run(LOWER, 5)(random_)} is ready"
        yield f"pod/shop-{run(HEX, 9)(random_)}-{run(LOWER, 5)(random_)} 1/1 Running 0 {number % 60}m"
        yield f"trace_id: {run(HEX, 32)(random_)} span_id: {run(HEX, 16)(random_)}"
