"""Tunix's names of spans and tags, and the tags that are shown in the name of a slice."""

STEP, MINI_BATCH, MICRO_BATCH = "step", "mini_batch_step", "micro_batch_step"
ROLE, GROUP_ID, PAIR_INDEX, NAME = "role", "group_id", "pair_index", "name"
DATA_LOADING, ROLLOUT, WEIGHT_SYNC = "data_loading", "rollout", "weight_sync"
REFERENCE_INFERENCE, OLD_ACTOR_INFERENCE = "reference_inference", "old_actor_inference"
ADVANTAGE_COMPUTATION, PEFT_TRAIN, ENVIRONMENT, QUEUE = "advantage_computation", "peft_train", "environment", "queue"
CONCURRENT = (ROLLOUT, ENVIRONMENT)  # spans that may overlap on a device of a cluster

SHORT = {MINI_BATCH: "mini_batch", MICRO_BATCH: "micro_batch"}
SHOWN = {
    PEFT_TRAIN: (STEP, ROLE, MINI_BATCH, MICRO_BATCH),
    ROLLOUT: (STEP, GROUP_ID, PAIR_INDEX),
    ENVIRONMENT: (STEP, GROUP_ID, PAIR_INDEX),
    REFERENCE_INFERENCE: (STEP, GROUP_ID),
    OLD_ACTOR_INFERENCE: (STEP, GROUP_ID),
    ADVANTAGE_COMPUTATION: (STEP, GROUP_ID),
    QUEUE: (NAME, STEP),
}
