"""Words of data: what reads it complains of, the files that it lies in, the code that reads it."""

from __future__ import annotations

import re

from cockpit.model.late_regex import late_regex

DATA = late_regex(
    r"(?<!connectionerror )(?<!timeout )(?<!timeouterror )in dataloader worker process"
    r"|corrupt\w* (shard|record|file|data|sample|image|parquet|archive)"
    r"|\bDataLossError\b|\bArrowInvalid\b|\bUnidentifiedImageError\b|\bUnpicklingError\b"
    r"|datasets\.(exceptions|builder|table)|\bDatasetGenerationError\b"
    r"|\bzlib\.error\b|\berror -?\d+ while decompressing|\bLZMAError\b"
    r"|\bBadZipFile\b|\bJSONDecodeError\b|EOFError: ran out of input"
    r"|ended before the end-of-stream marker"
    r"|truncated (record|file|image|shard)|tokenizer.{0,60}(mismatch|not found|missing|invalid)"
    r"|(could not|failed to|unable to) (parse|load|read|find) .{0,40}\btokenizer\b"
    r"|not a (gzip|zip|parquet|tar) file|not a gzipped file|invalid (tar|parquet|zip) "
    r"|unexpected eof .{0,40}\b(tar|zip|shard|gzip|parquet|archive|\w+\.(tar|zst|gz|bin))\b"
    r"|\bindex file (is |was )?(corrupt|truncat|invalid|doesn't match)"
    r"|\bdataset\b.{0,20}\bis empty\b(?! of\b|.{0,40}\bskip)"
    r"|\bno (samples|shards|documents|examples) (were )?(match|found(?! to be))"
    r"|(no such file|not found|missing|corrupt|truncated|malformed).{0,60}"
    r"(\d{3}[\w-]{0,80}\.|\.)(tar|parquet|arrow|tfrecords?|mds|idx|zst)\b"
    r"|(\d{3}[\w-]{0,80}|shard\S*)\.(tar|parquet|arrow|tfrecords?|mds|idx|zst|npy|jsonl)\S*.{0,20}"
    r"(no such file|not found|missing|corrupt|truncated|malformed)"
    r"|\.tfrecords?-\d+-of-\d+.{0,20}(no such file|not found|missing|corrupt|truncated)"
    r"|unknown split|must have the same columns|(schema|column)s?\b.{0,40}\b(mismatch|differs?"
    r"|not match)"
    r"|\b(parquet|arrow|tfrecord|csv|jsonl)\b: .{0,60}(out of specification|must end|invalid"
    r"|corrupt)"
    r"|\b(sample|document|record|row|example)( idx| index| id)? \d+\b.{0,60}\b(empty|length 0"
    r"|beyond"
    r"|missing|invalid|malformed|0 tokens|has no)\b|\bexcessive nesting\b"
    r"|\bapply\w* chat template\b|\bconversation roles must\b"
    r"|\b(in|at|of|for|from|reading|parsing) (sample|document|record|row|example)s?"
    r"( idx| index| id)?[ #:=]{1,3}\d+|\bParse(Single)?(Example|Record)\w*\b|\bpremature end\b"
    r"|\b(does not|doesn't) match (the )?expected format\b"
    r"|\bmmap length is greater than file size\b"
    r"|\b(file|image|archive|stream) is truncated\b|\bempty (dataset|split|shard|sample)\b"
    r"|\b0 (rows|samples|documents|examples) found\b"
    r"|\b(contains|has|have) (0|no) (rows|samples|documents|examples)\b"
    r"|couldn't cast|\bCastError\b|magic bytes not found|(?<!silent )\bdata corruption\b"
    r"|decompress error"
    r"|\bvocab\w*.{0,20}\bmismatch.{0,40}\btokenizer"
    r"|(token|label|index)( ids?)? \d+.{0,30}(out of (range|bounds)|exceeds|>=).{0,30}\bvocab"
    r"|bad header, cannot read|dataset \S+ (not found|doesn't exist)|\bDatasetNotFoundError\b"
    r"|(no (\(supported\) )?|couldn't find (a |any )?)data ?files? (found|match)"
    r"|\bDataFilesNotFoundError\b"
    r"|\bmagic (number|bytes?)\b.{0,30}\bmismatch|\bdid not match any variant of untagged enum\b"
    r"|(could not|cannot|can't) find (the )?index file\b"
    r"|\b(ran|run) out of (samples|documents|examples|records|training data)\b"
    r"|\btoken ids?\b.{0,30}\b(beyond|outside|exceeds?)\b.{0,30}\bvocab"
    r"|(could not|couldn't|can(no|')t|failed to|unable to|error|cannot)( \w+)? "
    r"(read|load|open|decode|pars|deseriali|fetch|unpack|decompress)\w*\b"
    r"(?!.{0,80}\b(checkpoint|ckpt|weights?|model|optimi[sz]er|safetensors|state.?dict|config"
    r"|shared object|librar\w+|\w+\.so)\b)"
    r".{0,80}\b(shards?|samples?|records?|examples?|data ?(set|file|point)?|tfrecords?|batch"
    r"|corpus|tokens|\w+\.(tar|parquet|arrow|jsonl(\.\w+)?|tfrecord|npy|npz|bin|mds|jpe?g|png))\b"
    r"|\b(shard|sample|record|dataset|data file)\b.{0,60}\b(corrupt\w*|truncated|unreadable"
    r"|malformed|missing|bad (magic|header|checksum)|checksum mismatch|crc)\b"
    r"|\breading array data\b|\bAudioLoadingError\b|\bLibsndfileError\b"
    r"|unexpected end of data|\bUnicodeDecodeError\b"
    r"|\b(crc|checksum)\b.{0,40}\b(mismatch|fail\w*|error)\b.{0,80}\b(shard|record|data|sample)",
    re.I,
)
"""Trouble that the input data makes; decisive only where it ended the job."""

DATA_FILE = late_regex(
    r"shard[-_.]?\d+|\.array_?record\b|\d{3}[\w-]{0,80}\.(tar|parquet|arrow|tfrecords?|mds|npy|zst)\b"
    r"|\.tfrecords?-\d+-of-\d+",
    re.I,
)
"""A numbered piece of a dataset."""

DATA_CODE = late_regex(
    r"(site|dist)-packages/(webdataset|streaming|datasets|torchdata|tensorflow_datasets|seqio|grain"
    r"|pyarrow|PIL|litdata|ffcv|nvidia/dali|decord|torchaudio|soundfile|librosa|zstandard|lhotse"
    r"|tfrecord"
    r"|fairseq/data|torch/utils/data/_utils)\b|/lib/python[\d.]+/(tarfile|gzip|zipfile|lzma)\.py"
    r"|megatron/(core|data)/(datasets/)?(indexed|blended|gpt)_dataset|/streaming/base/"
    r"|/levanter/(data|store)/|/input_pipeline/"
)
"""Code whose work is to read data: what it raises, the data is at fault for."""

DATA_MODULE = late_regex(
    r"^(pandas\.errors|polars|tarfile|zipfile|gzip|bz2|lzma|zlib|zstandard|snappy|lz4|brotli|PIL"
    r"|pyarrow|fastparquet|lmdb"
    r"|webdataset|datasets|streaming|tfrecord|soundfile|decord|av|litdata|ffcv)(\.|$)"
)
"""Modules that read data, as they stand before the name of what they raise."""
