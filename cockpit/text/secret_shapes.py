"""Keys that their own first letters give away, whoever prints them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cockpit.model.late_regex import late_regex

_PREFIXES: Final = (
    r"wandb_v1_[\w-]{16,}",
    r"\blocal-[0-9a-f]{40}\b",
    r"\bhf_(?:[A-Za-z0-9]{34}|(?=[A-Za-z]*\d)[A-Za-z0-9]{20,})\b",
    r"\bapi_org_[A-Za-z0-9]{20,}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_\w{20,}",
    r"\bglpat-[\w-]{16,}",
    r"\bGR1348941[\w-]{20,}",  # GitLab's runners, before glrt-
    r"\b(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z2-7]{16}\b",
    r"\bAIza[\w-]{30,}",
    r"\bya29\.[\w.-]{16,}",
    r"\bGOCSPX-[\w-]{16,}",
    r"\bxox[a-z]-[\w-]{10,}",
    r"\bxapp-[\w-]{10,}",
    r"\bsk-ant-[\w-]{16,}",
    r"\bsk-(?:proj|svcacct|admin|or)-[\w-]{16,}",
    r"\bsk-[A-Za-z0-9]{20,}",
    r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"\bgsk_[A-Za-z0-9]{20,}",
    r"\br8_[A-Za-z0-9]{20,}",
    r"\bnvapi-[\w-]{20,}",
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[\w-]{40,}",
    r"\bdckr_pat_[\w-]{20,}",
    r"\bdop_v1_[0-9a-f]{40,}",
    r"\btskey-[\w-]{16,}",
    r"\bSG\.[\w-]{16,}\.[\w-]{16,}",
    r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?",
    r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}",
    r"\b\d{8,10}:AA[\w-]{30,}",
    r"\bhv[sbr]\.[\w-]{20,}",  # Vault
    r"\bdapi[0-9a-f]{32}\b",  # Databricks
    r"\blin_api_[A-Za-z0-9]{30,}",
    r"\bpul-[0-9a-f]{40}\b",  # Pulumi
    r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{50,}",  # Terraform Cloud
    r"\bSK[0-9a-f]{32}\b",  # Twilio
    r"\b(?:xai|pplx|tvly|csk|lsv2_[ps]t|pcsk|tgp_v1|fw|rpa|rnd|sbp|sb_secret|pscale_tkn|figd|shpat"
    r"|sntrys|ntn|phx|glrt|gldt|fo1|NRAK|ATATT3x|ATCTT3x)[_-][\w=-]{20,}",
    r"\bsk-lf-[\w-]{20,}",
    r"\b(?:fm[12]_)[\w+/=-]{40,}",  # Fly
    r"\bdp\.(?:pt|st|ct)\.[A-Za-z0-9]{40,}",  # Doppler
    r"\bLTAI[A-Za-z0-9]{12,}\b",
    r"\b1//0[\w-]{30,}",  # Google's refresh tokens
    r"\b[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,}",  # Discord
    r"\ba[ks]-[A-Za-z0-9]{22}\b",  # Modal
    r"\$(?:2[abxy]|[156y]|argon2\w{1,2}|scrypt|pbkdf2[\w-]*)\$[\w./$=,+-]{20,}",  # crypt(3)
    r"(?<=\.bearer\.authorization\.k8s\.io\.)[\w-]{16,}",  # Kubernetes over a WebSocket
    r"\bgl(?:sa|c)_[\w+/=-]{30,}",  # Grafana
    r"\bNRII-[\w-]{20,}",  # New Relic
    r"\bhc[abcxo][a-z][kt]_\w{30,}",  # Honeycomb
    r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b",  # Airtable
    r"\bATBB[A-Za-z0-9]{28,}\b",  # Bitbucket
    r"\bsl\.(?:u\.)?[\w-]{60,}",  # Dropbox
    r"\bdckr_oat_[\w-]{20,}|\bdo[or]_v1_[0-9a-f]{40,}|\bSWMTKN-1-[\w-]{40,}",
    r"\bHRKU-[\w-]{30,}|\bnf[pcou]_[A-Za-z0-9]{30,}|\bvc[pkiar]_[A-Za-z0-9]{24,}",
    r"\bMUNGE:[A-Za-z0-9+/]{40,}={0,2}",
    r"\bessu_[\w+/=]{40,}",  # Elastic
    r"\bsk\.eyJ[\w-]{20,}\.[\w-]{16,}",  # Mapbox
    r"\bkey-[0-9a-f]{32}\b|\b[0-9a-f]{32}-us\d{1,2}\b",  # Mailgun, Mailchimp
    r"\bwhsec_[\w+/=]{24,}|\bsq0(?:atp|csp)-[\w-]{20,}|\bshp(?:ss|ca|pa|tka)_[0-9a-f]{32}\b",
    r"\bGOOG1E[A-Z0-9]{50,}\b|\bABSK[A-Za-z0-9+/]{80,}={0,2}",
    r"\bjina_[\w-]{50,}|\bgto_[a-z0-9]{50,}|\besecret_[a-z0-9]{20,}|\baph0_\w{30,}|\bpn[ub]_[A-Za-z0-9]{30,}",
    r"\bpa-(?=[\w-]*\d)(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{43}\b",  # Voyage
    r"\bdbt[cu]_[\w+/=-]{30,}|\bKGAT_[0-9a-f]{30,}|\bhf_jwt_[\w.-]{40,}",
    r"\bA{20,}[\w%-]{40,}",  # X's bearer tokens
    r"\bEAA[A-Z](?=\w*\d)\w{90,}",  # Meta
    r"\bsgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}\b|\bbk(?:ua|ct|rt)_[0-9a-f]{40}\b",
    r"\bCCIP(?:AT|RJ)_\w{40,}|\bPMA[KT]-[0-9a-f]{24}-[0-9a-f]{34}\b|\brubygems_[0-9a-f]{48}\b",
    r"\bsess-[A-Za-z0-9]{40}\b|\bw[ks]-[A-Za-z0-9]{22}\b|\bops_eyJ[\w-]{40,}",
    r"\bgl(?:cbt|ptt|ft|soat|agent|imt|oas|ffct)-[\w-]{20,}",  # GitLab's others
    r"\b[A-Za-z0-9]{70,}AZDO[A-Za-z0-9]{4}\b",  # Azure DevOps
    r"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}\b|\bxkeysib-[0-9a-f]{60,}",
    r"\bcf[au]t_[\w-]{40,}|\bsq[upa]_[0-9a-f]{40}\b|\bAKCp[A-Za-z0-9]{60,}\b",
    r"\bls__[0-9a-f]{32}\b|\bfc-[0-9a-f]{32}\b|\bK10[0-9a-f]{64}::\w+:\w+",
    r"\bsecret_(?:\w{1,40}_)?(?=[A-Za-z]*\d)[A-Za-z0-9]{32,}(?:\.[A-Za-z0-9]{16,})?",  # Lambda
)
_SHAPE: Final = late_regex("|".join(_PREFIXES))
_HINTS: Final = (
    *(
        "_v1_",
        "local-",
        "hf_",
        "_org_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "glpat-",
        "GR1348941",
        "_pat_",
        "AKIA",
        "ASIA",
        "ABIA",
        "ACCA",
    ),
    *("A3T", "AIza", "ya29.", "GOCSPX-", "xox", "xapp-", "sk-", "k_live", "k_test", "gsk_", "r8_"),
    *(
        "nvapi-",
        "npm_",
        "pypi-",
        "tskey-",
        "SG.",
        "eyJ",
        "AGE-SECRET",
        ":AA",
        "hv",
        "dapi",
        "_api_",
    ),
    *("pul-", ".atlasv1.", "SK", "xai-", "pplx-", "tvly-", "csk-", "lsv2_", "pcsk_", "fw_", "rpa_"),
    *(
        "rnd_",
        "sbp_",
        "sb_secret",
        "pscale_",
        "figd_",
        "shpat_",
        "sntrys_",
        "ntn_",
        "phx_",
        "glrt-",
        "gldt-",
    ),
    *("fo1_", "NRAK-", "TT3x", "fm1_", "fm2_", "dp.", "LTAI", "1//0", "ak-", "as-", "secret_"),
    *("glsa_", "glc_", "NRII-", "hc", "pat", "ATBB", "sl.", "_oat_", "SWMTKN", "HRKU-", "nf", "vc"),
    *("essu_", "sk.eyJ", "key-", "-us", "whsec_", "sq0", "shp", "GOOG1E", "ABSK", "jina_", "aph0_"),
    *("esecret_", "pn", "pa-", "dbt", "KGAT_", "AAAAAAAA", "EAA", "sgp_", "bk", "CCIP", "PMA"),
    *(
        "rubygems_",
        "gto_",
        "sess-",
        "wk-",
        "ws-",
        "ops_",
        "gl",
        "AZDO",
        "re_",
        "xkeysib-",
        "cf",
        "AKCp",
    ),
    *("ls__", "fc-", "K10", "squ_", "sqp_", "sqa_"),
    *("$2", "$1$", "$5$", "$6$", "$y$", "$argon2", "$scrypt$", "$pbkdf2", ".k8s.io.", "MUNGE:"),
)
_MADE: Final = late_regex(
    r"\b(?!(?:chat)?cmpl|msg|req|resp|run|thread|batch|job|call|toolu|file|org|proj|user|evt|step"
    r"|asst|raysubmit|artifact|ids?\b|uu?id|hash|sha|rev|commit|cache|trace|span|event|image|blob)"
    r"[a-z][a-z0-9]{1,11}[_-](?:[a-z0-9]{1,7}[_-])?"
    r"(?=[A-Za-z]*\d)(?=[A-Z\d]*[a-z])(?=[a-z\d]*[A-Z])[A-Za-z0-9]{32,}(?![\w/.-])"
)
"""What a vendor makes that nobody has named here: a short word, then random figures and letters
of both sizes. What a service calls its requests, files and runs looks alike, and opens nothing."""
_LONG_WORD: Final = late_regex(r"[\w-]{35}")
_CUT_SHAPE = late_regex(
    r"\b(?:hf_|gh[pousr]_|github_pat_|wandb_v1_|sk-|xox[a-z]-|AKIA|AIza|ya29\.)[\w.-]{2,}…$"
)
"""A key whose end was cut off with the line."""
_TORN: Final = late_regex(
    r"\b(?:hf_|gh[pousr]_|github_pat_|wandb_v1_|sk-(?:proj-|ant-)?|glpat-|AKIA|AIza|ya29\.)"
    r"(?=[\w-]*\d)(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{8,19}$"
)
"""A key that goes on in the next line: too short by itself, but with what no name has."""


SHORTEST: Final = 15
"""Characters without a blank that the shortest key has."""
_RUN: Final = late_regex(rf"[\w.-]{{{SHORTEST}}}")


def may_hold_key(words: Iterable[str]) -> bool:
    """Return whether one of a line's words is long enough for a key."""
    for word in words:  # noqa: SIM110 - as below
        if len(word) >= SHORTEST and _RUN.search(word):
            return True
    return False


def shaped_secrets(line: str) -> list[tuple[int, int]]:
    """Return the ranges of ``line`` that have a key's shape."""
    found: list[tuple[int, int]] = []
    if holds_any(line, _HINTS):
        shaped = (match for match in _SHAPE.finditer(line) if len(set(match[0][-8:])) > 1)
        found += (match.span() for match in shaped)  # hf_xxxxxxxx stands for one
        found += (match.span() for match in _TORN.finditer(line))
    if _LONG_WORD.search(line):
        found += (match.span() for match in _MADE.finditer(line))
    if line.endswith("…"):
        found += (match.span() for match in _CUT_SHAPE.finditer(line))
    return found


def holds_any(text: str, words: Iterable[str]) -> bool:
    """Return whether ``text`` holds one of the words; a plain loop is twice as fast as ``any``."""
    for word in words:  # noqa: SIM110 - a generator costs more than the search itself
        if word in text:
            return True
    return False
