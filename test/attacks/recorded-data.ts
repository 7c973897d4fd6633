import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonValue } from '@toolloop/core';
import type { JSONSchema7 } from 'json-schema';
import { z } from 'zod';

/**
 * Calls of public benchmarks with the results that their own environments gave: τ-bench's tasks,
 * and InjecAgent's attacks. Its README says who wrote what.
 */
export const RECORDED = '../shared/flow-data';

/** The tasks that real users of a shop and an airline have. */
export const TASK_FILES = ['tau-retail.json', 'tau-airline.json', 'tau-retail-train.json'] as const;
const ATTACK_FILE = 'injecagent.json';

const json: z.ZodType<JsonValue> = z.json();
const recordedCall = z.object({
  name: z.string(),
  args: z.record(z.string(), json),
  result: json.optional(),
  error: z.boolean().optional(),
});
const recordedTool = z.object({
  name: z.string(),
  description: z.string(),
  parameters: z.custom<JSONSchema7>((value) => typeof value === 'object' && value !== null),
  effect: z.enum(['read_only', 'state_change', 'external_side_effect']),
  labels: z.object({
    returns: z.enum(['trusted', 'untrusted']),
    reads: z.enum(['public', 'private']),
    egress: z.boolean(),
  }),
  untrustedFields: z.array(z.string()),
});
const recordedTasks = z.object({
  tools: z.array(recordedTool),
  tasks: z.array(
    z.object({ id: z.string(), instruction: z.string(), calls: z.array(recordedCall) }),
  ),
});
const recordedAttacks = z.object({
  userTools: z.array(recordedTool),
  attackerTools: z.array(recordedTool),
  cases: z.array(
    z.object({
      id: z.string(),
      kind: z.enum(['direct_harm', 'data_stealing']),
      userInstruction: z.string(),
      userCall: recordedCall,
      response: json,
      attackerInstruction: z.string(),
      attackerCalls: z.array(recordedCall),
    }),
  ),
});

/**
 * A tool of a recording, with the labels that a careful developer would give it. `untrustedFields`
 * are JSON pointers into its results; `*` is any one key or index.
 */
export type RecordedTool = z.infer<typeof recordedTool>;
export type RecordedCall = z.infer<typeof recordedCall>;
export type RecordedTasks = z.infer<typeof recordedTasks>;
export type RecordedTask = RecordedTasks['tasks'][number];
export type RecordedAttacks = z.infer<typeof recordedAttacks>;
export type RecordedAttack = RecordedAttacks['cases'][number];

/** Tells whether the recorded calls are there: they are no part of the repository. */
export function isRecordedThere(folder = RECORDED): boolean {
  return existsSync(join(folder, ATTACK_FILE));
}

/** Reads the tasks of one domain. */
export function readTasks(folder: string, name: (typeof TASK_FILES)[number]): RecordedTasks {
  return recordedTasks.parse(read(folder, name));
}

/** Reads the attacks of InjecAgent. */
export function readAttacks(folder: string): RecordedAttacks {
  return recordedAttacks.parse(read(folder, ATTACK_FILE));
}

function read(folder: string, name: string): unknown {
  return JSON.parse(readFileSync(join(folder, name), 'utf8'));
}
