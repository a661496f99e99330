"""Secrets that no name gives away, and what only looks like one. All values are made here."""

from __future__ import annotations

import random
import string
import time

import pytest

from cockpit.text.scrub import MASK, Scrubber, scrub

_DICE = random.Random(11)


def _made(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    return "F4ke" + "".join(_DICE.choice(letters) for _ in range(length - 4))


WORD, LONG = _made(18), _made(40)
HEX = "".join(_DICE.choice("0123456789abcdef") for _ in range(39)) + "7"
BODY = _made(64)

TOOLS = [
    "mysql -uroot -p{word} meta",
    "sshpass -p '{word} and more' ssh box",
    "redis-cli -h cache -a {word} ping",
    "ngrok config add-authtoken {long}",
    "mc alias set store https://minio:9000 {word} {long}",
    "vault login {long}",
    "http -a ada:{word} GET example.org",
    "skopeo copy --src-creds ada:{word} a b",
    "openssl enc -pass pass:{word} -in a",
    "echo {word} | docker login -u ada --password-stdin",
    "printf '%s' {long} | kubectl create secret generic x --from-file=t=/dev/stdin",
    "gh auth login --with-token <<< '{long}'",
    "kubectl create secret generic x --from-literal=wandb={hex}",
    "rclone config create s s3 access_key_id AB secret_access_key {long}",
    "aws configure set aws_secret_access_key {long}",
    "poetry config http-basic.x ada {word}",
    "openssl enc -aes-256-cbc -k {word} -in a",
    "ssh-keygen -t ed25519 -N {word} -f k",
    "curl -b 'sid={word}' https://x",
    "curl -u {long}: https://x",
    "smbclient //nas/d -U 'ada%{word}'",
    "scp c.pt ada:{word}@box:/d",
    "net use z: //nas/d /user:ada {word}",
    "rabbitmqctl add_user ada {word}",
    "swanlab login -k {long}",
    "gh secret set WANDB -b {hex}",
    "wrangler secret put X <<< {long}",
    "java -DapiKey={long} -Xmx2g",
    "--conf fs.azure.account.key.a.dfs.core.windows.net={long}",
    "psql -h db; echo db:5432:meta:ada:{word} >> ~/.pgpass",
]
TOLD = [
    "<password>{word}</password>",
    "<name>fs.secret.key</name> <value>{long}</value>",
    "Server=db;Uid=ada;Pwd={{{word};9}};Encrypt=yes",
    "https://conda.example.org/t/{long}/channel",
    "https://ada:{word}/{word}@example.org/simple",
    "git clone https://{long}:x-oauth-basic@example.org/x",
    '{{"primaryKey": "{long}"}}',
    "Ocp-Apim-Subscription-Key: {hex}",
    "ansible_become_pass: {word}",
    "setenv('API_KEY', '{word}')",
    "password=b'{word}'",
    "| api_key | {word} |",
    "  api_key ........... {word}",
    "--password='it'\\''s {word}'",
    "Authorization: Basic with secret_lab_{long}",
    "the password for user ada is {word}",
    "Your API key is {long}",
    "secret {long}",
    "    client-key-data: {long}",
    "{{'name': 'DB_PASSWORD', 'value': '{word}'}}",
    "auth=('ada', '{word}')",
    "KAGGLE_KEY={hex}",
    "pass={word} host=x",
    "password= {word} host=x",
    'set -x HF_TOKEN "{word}"',
    "HTTPBasicAuth('ada', '{word}')",
    "next=%2Fcb%3Fx%3D1%26access_token%3D{long}",
    'url: "https://x/?a=1\\u0026sig={long}"',
    "CREATE USER ada IDENTIFIED BY '{word}'",
    "retrying with api key {hex} (2/5)",
    "keytool -srcstorepass {word}",
    "helm upgrade x --set secrets.wandb={hex}",
    'os.environ["DB_PASSWORD"] = "{word}"',
    "tok = '{long}'",
    '{{\\"api_key\\": \\"{long}\\"}}',
    "cohere.Client('{long}')",
    "db.internal:5432:meta:ada:{word}",
    "*:*:meta:ada:{word}",
    "PASSWORD {word} was rejected by the server",
    "docker run -e WANDB_API_KEY {hex} image",
    "login(key='{hex}')",
    "set_token( token = '{long}')",
    "SecretAccessKey {long}",
    "curl -H Authorization:Bearer\\ {long} https://h",
    "GET /x?authorization=Bearer%20{long}",
    "password_hash: $2b$12${body}",
    "root:$6$salt${body}:19000:0:",
    "10:00:01 AUTH {word}",
    "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.{long}",
]
TORN = [
    'variable "db_password" {{\n  type = string\n  default = "{word}"\n}}',
    "api_key\n  Input should be shorter [type=x, input_value='{word}', input_type=str]",
    "export HF_TOKEN=\\\n{long}",
    "train --token \\\n    {long} \\\n    --lr 1",
    "WANDB_API_KEY={half}\n{rest}",
    "- name: DB_PASSWORD\n  value: {word}",
    '"api_key":\n    "{long}"',
    "password: |\n  {word}",
    "Private-Lines: 1\n{body}",
    "kind: Secret\ndata:\n  wandb: {body}\ntype: Opaque",
    "name,api_key\nada,{hex}",
    "| user | token |\n|------|-------|\n| ada | {long} |",
    '{{"key": "-----BEGIN RSA PRIVATE KEY-----\\n{body}\\n-----END RSA PRIVATE KEY-----"}}',
]


@pytest.mark.parametrize("shape", [*TOOLS, *TOLD, *TORN])
def test_a_secret_goes_however_it_is_given(shape: str) -> None:
    text = shape.format(word=WORD, long=LONG, hex=HEX, body=BODY, half=HEX[:22], rest=HEX[22:])
    masked = scrub(text)
    assert MASK in masked
    for secret in (WORD, LONG, HEX, HEX[:22], HEX[22:], BODY):
        assert secret not in masked
    assert scrub(masked) == masked


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password=`Tr0ub4dor and 3`", "Tr0ub4dor and 3"),  # Markdown's ticks, not the shell's
        ("the password: `tr0ub4dor and 3`", "tr0ub4dor and 3"),
        ("docker exec db setenv DB_PASSWORD hunter2pw", "hunter2pw"),
        ("RUN docker login; ENV DB_PASSWORD hunter2pw", "hunter2pw"),
        ("token=abcDEF123[", "abcDEF123"),
        ("pullSecret=Tr0ub4dor3", "Tr0ub4dor3"),
    ],
)
def test_what_resembles_a_command_an_index_or_a_name_is_still_a_secret(
    text: str, secret: str
) -> None:
    masked = scrub(text)
    assert MASK in masked
    assert not [word for word in secret.split() if len(word) > 3 and word in masked]


def test_four_groups_of_four_are_one_password() -> None:
    assert scrub("SMTP_PASS=abcd efgh ijkl mnop") == f"SMTP_PASS={MASK}"


KEPT = [
    "password: changeme?",
    'export HF_TOKEN="${HF_TOKEN:-}"',
    "password = (sensitive value)",
    "X-Api-Key: {api_key}",
    "--redis-password not set",
    "filtered: password=12 email=201",
    "api_key: ${oc.env:WANDB_API_KEY}",
    "PublicKey AAAAB3NzaC1yc2EAAAADAQABAAABgQC7v5",
    "login(key='wandb')",
    "AUTH enabled on this host",
    "costs $2 or $5 or $6",
    "hf_BertForSequenceClassification loaded",
    "password = random_password.db.result",
    "user=ada password= host=db",
    "    password: SecretStr",
    "default: {{ .Values.password | quote }}",
    "https://forum.example.org/t/cuda-12-4-error-700-on-2-gpus/201234",
    "http://proxy:3128/a/b@c",
    "<token>the</token>",
    "keys: ('password', 'email')",
    "| token | logprob |",
    "  pad_token ............ <pad>",
    "ssh-keygen -t ed25519 -N '' -f k",
    "curl -b cookies.txt https://x",
    'variable "db_password" {\n  type = string\n}',
    "api_key\n  Field required [type=missing, input_value={'lr': 1}, input_type=dict]",
    "forward_pass: 12.5ms",
    f"sort: primary_key={HEX}",
    "mysql -u root -h db -P 3306 meta",
    "docker run -p 8080:80 -it image",
    "echo done | tee log",
    "echo $TOKEN | docker login --password-stdin",
    "WANDB_API_KEY=***REDACTED***",
    "password: [HIDDEN]",
    "TOKEN= python train.py",
    "--api-key API_KEY  the key to use",
    "HF_TOKEN=hf_xxx",
    "api_key: !ENV ${KEY}",
    "password = config.get('db')",
    "password is required",
    "the token is at position 4096",
    "token count: 4096",
    "GOOGLE_APPLICATION_CREDENTIALS=/secrets/sa.json",
    f"CACHE_KEY={HEX}",
    f"artifact digest {HEX[:32]}",
    f"WANDB_RUN_ID=a1b2c3d4\n{HEX}",
    "TOKEN=\nstep 400 loss 2.31",
    "- name: NCCL_DEBUG\n  value: INFO2",
    "--token\n  usage: a token",
    "train --lr 0.1 \\\n  --name run-2025-a1",
    "passwd: Authentication token manipulation error",
    "routing_key: gpu.a100.us-central1",
    '{"password": 8112, "token": 9000}',
    "authors = ('ada', 'bob')",
    "step,loss,token\n1,2.31,4096000011112222",
    "data:\n  path: /mnt/c4/en/train-00001-of-01024\n  seq_len: 4096",
    f"data:\n  digest: x\nrevision: {HEX}",
    "login from box-a100-0007.cluster.example.org",
    "the token expires at 2025-11-22T02:20:11Z",
    "--bypass Hunter2Hunter2",
    "HF_TOKEN=${HF_TOKEN:?not set} python t.py",
    "HF_TOKEN=`cat ~/.hf` python t.py",
    "docker run -e WANDB_API_KEY -e HF_TOKEN image:1",
    "kubectl create secret generic x --from-file=api-key=./key",
    "helm upgrade x --set wandb.existingSecret=wandb2",
    'api_key = getpass.getpass("key: ")',
    'secret_key = config["secret_key"]',
    "token = tokens[0]",
    "MlflowClient('run-2025-11-22-lr3e4-bs128-long')",
    "gn7:4123:4130:3:NCCL23abc",
    "password: this will then fail",
    "the password Argon2id is hashed with",
]


@pytest.mark.parametrize("text", KEPT)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert scrub(text) == text


def test_a_plain_line_is_not_looked_at_by_every_rule() -> None:
    """Beside a line that names a key: the hints in front of the rules keep it cheap."""
    plain = ["step 41 | loss 2.7312 | lr 3.0e-04 | 412.1k tok/s | grad norm 0.41"] * 1000
    named = [f"export API_KEY={WORD} --token x9 https://u:{WORD}@h/x"] * 1000

    def taken(lines: list[str]) -> float:
        scrubber = Scrubber()
        best = []
        for _ in range(3):
            started = time.process_time()
            for line in lines:
                scrubber.line(line)
            best.append(time.process_time() - started)
        return min(best)

    assert taken(plain) * 3 < taken(named)
