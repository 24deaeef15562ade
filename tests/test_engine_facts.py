"""hedgectl config engine: what a metrics page says about capacity, what it does not say, and refusals that name the way out."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from hedgectl import config, engine_facts, schemas
from hedgectl.cli import main
from hedgectl.errors import InputError
from hedgectl.formats import detect

VLLM = """# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",num_gpu_blocks="1024"} 1.0
vllm:num_requests_running{engine="0",model_name="m"} 17.0
vllm:num_requests_waiting{engine="0",model_name="m"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.713
"""


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        (VLLM, {"kv_capacity_tokens": 16384, "prefix_cache": True}),
        (
            'vllm:cache_config_info{block_size="32",kv_cache_size_tokens="704",num_gpu_blocks="22"} 1.0',
            {"kv_capacity_tokens": 704},
        ),
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0', {}),
        (
            'vllm:scheduler_config_info{max_num_seqs="128",max_num_batched_tokens="8192"} 1',
            {"max_running_requests": 128, "step_token_budget": 8192},
        ),
        (
            "sglang:max_total_num_tokens 250000\nsglang:max_running_requests 64",
            {"kv_capacity_tokens": 250000, "max_running_requests": 64},
        ),
        ("sglang:num_used_tokens 90211.0\nsglang:token_usage 0.71", {"kv_capacity_tokens": 127058}),
        ("sglang:num_used_tokens 12.0\nsglang:token_usage 0.01", {}),
        ("trtllm_kv_cache_max_blocks 100\ntrtllm_kv_cache_tokens_per_block 64", {"kv_capacity_tokens": 6400}),
        (
            'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="m"} 200\n'
            'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="m"} 64\n'
            'nv_trt_llm_request_metrics{request_type="max",model="m"} 48',
            {"kv_capacity_tokens": 12800, "max_running_requests": 48},
        ),
        ("tgi_batch_current_max_tokens 32768", {"kv_capacity_tokens": 32768}),
        ("llamacpp:requests_processing 0", {}),
        (
            "INFO GPU KV cache size: 131,072 tokens\nargs: {'max_num_seqs': 3}",
            {"kv_capacity_tokens": 131072, "max_running_requests": 3},
        ),
    ],
)
def test_values_of_each_engine(page: str, wanted: dict[str, int | bool]) -> None:
    facts = engine_facts.parse(page)
    assert facts.values() == wanted
    assert {"max_running_requests", "kv_capacity_tokens"} - wanted.keys() == set(facts.missing)
    jsonschema.validate(facts.document(), schemas.load("engine_facts"))


@pytest.mark.parametrize("page", ["", "# HELP x y", "nginx_connections 5", 'vllm_like{block_size="16"} 1'])
def test_a_page_of_nobody_is_refused_with_the_way_to_get_one(page: str) -> None:
    with pytest.raises(InputError) as caught:
        engine_facts.parse(page, where="m.txt")
    assert "curl" in str(caught.value.hint)


def test_a_full_batch_is_a_clue_and_not_a_fact() -> None:
    assert "may be 17" in engine_facts.parse(VLLM).missing["max_running_requests"]
    idle = VLLM.replace('waiting{engine="0",model_name="m"} 4.0', 'waiting{engine="0",model_name="m"} 0.0')
    assert "may be" not in engine_facts.parse(idle).missing["max_running_requests"]
    full = VLLM.replace("0.713", "0.99")
    assert "may be" not in engine_facts.parse(full).missing["max_running_requests"]


def test_several_engine_cores_are_told() -> None:
    two = VLLM + VLLM.replace('engine="0"', 'engine="1"')
    assert "2 engine cores" in engine_facts.parse(two).notes[0]


def test_the_block_is_read_back_by_the_settings(tmp_path: Path) -> None:
    block = engine_facts.parse(VLLM).toml()
    path = tmp_path / "hedgectl.toml"
    path.write_text(block, encoding="utf-8")
    loaded = config.load(path, environ={})
    assert (
        loaded.section("engine")
        == tomllib.loads(block)["engine"]
        == {"kv_capacity_tokens": 16384, "prefix_cache": True}
    )
    assert "# max_running_requests = ?" in block


def test_the_command_prints_block_and_document(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    page = tmp_path / "metrics.txt"
    page.write_text(VLLM, encoding="utf-8")
    for argv, check in ((["-o", "json"], json.loads), ([], lambda text: tomllib.loads(text.decode()))):
        with pytest.raises(SystemExit) as stop:
            main(["config", "engine", "--from", str(page), *argv])
        assert not stop.value.code
        printed = capsysbinary.readouterr()
        assert check(printed.out)
        assert b"--max-num-seqs" in printed.err


@pytest.mark.parametrize(
    ("page", "flag"),
    [
        (VLLM, "--otlp-traces-endpoint"),
        ("sglang:num_queue_reqs 4\nsglang:token_usage 0.5", "--export-metrics-to-file"),
        ("trtllm_num_requests_waiting 1\ntrtllm_num_requests_running 1", "perf_metrics_max_requests"),
        ("nv_inference_count 99\nnv_inference_exec_count 67", "rate=1"),
        ("tgi_queue_size 1\ntgi_request_count 5", "--json-output"),
        ("llamacpp:requests_processing 0\nllamacpp:requests_deferred 0", "timings{}"),
        ("dynamo_frontend_requests_total 3\ndynamo_frontend_inflight_requests 1", "DYN_REQUEST_TRACE"),
        ("my_app_requests_total 3\nmy_app_errors_total 0", "gateway"),
    ],
)
def test_a_refused_metrics_page_names_the_flag_for_single_requests(page: str, flag: str) -> None:
    with pytest.raises(InputError) as caught:
        detect.detect(page.splitlines())
    assert "metrics page" in caught.value.what
    assert flag in str(caught.value.hint)
    assert "hedgectl config engine" in str(caught.value.hint)
