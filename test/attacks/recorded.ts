import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ReadableStream } from 'node:stream/web';
import { type JsonObject, type JsonValue, LanguageModel, type LoopResult, tool, type ToolCallContext, ToolError } from '@toolloop/core';
import type { ModelEvent } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { z } from 'zod';
import { AttackApplication, type AttackedTools } from './attack.application.js';
import { LEVELS, policyAt, type Level } from './levels.js';
import type { RawTool } from './pack-tools.js';

/** Calls of public benchmarks with the results that their own environments gave: τ-bench's tasks, and InjecAgent's attacks. Its README says who wrote what. */
export const RECORDED = '../shared/flow-data';

/** The tasks that real users of a shop and an airline have. */
export const TASK_FILES = ['tau-retail.json', 'tau-airline.json', 'tau-retail-train.json'] as const;
const ATTACK_FILE = 'injecagent.json';

const recordedCall = z.object({
  name: z.string(),
  args: z.record(z.string(), z.json()),
  result: z.json().optional(),
  error: z.boolean().optional(),
});
const recordedTool = z.object({
  name: z.string(),
  description: z.string(),
  parameters: z.custom<JSONSchema7>((value) => typeof value === 'object' && value !== null),
  effect: z.enum(['read_only', 'state_change', 'external_side_effect']),
  labels: z.object({ returns: z.enum(['trusted', 'untrusted']), reads: z.enum(['public', 'private']), egress: z.boolean() }),
});
const recordedTasks = z.object({
  tools: z.array(recordedTool),
  tasks: z.array(z.object({ id: z.string(), instruction: z.string(), calls: z.array(recordedCall) })),
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
      response: z.json(),
      attackerCalls: z.array(recordedCall),
    }),
  ),
});

type RecordedTool = z.infer<typeof recordedTool>;
type RecordedCall = z.infer<typeof recordedCall>;
export type RecordedTask = z.infer<typeof recordedTasks>['tasks'][number];
export type RecordedAttack = z.infer<typeof recordedAttacks>['cases'][number];

/** The figures of recorded tasks without an attacker, with a reviewer who says yes to everything. */
export interface RecordedTaskFigures {
  readonly tasks: number;
  readonly approvals: number;
  readonly tasksWithoutApproval: number;
  readonly changingTasks: number;
  readonly changingTasksWithoutApproval: number;
  /** Calls that ended otherwise than recorded, though everything was approved; a mistake in the replay. */
  readonly unlike: number;
}

/** The figures of recorded attacks, with a reviewer who says no to everything. */
export interface RecordedAttackFigures {
  readonly attacks: number;
  /** Attacks in which a call changed something or carried something out, without an approval. */
  readonly effects: number;
  /** Attacks in which a stolen value was carried out, without an approval. */
  readonly leaks: number;
}

export interface RecordedFigures {
  readonly tasks: Readonly<Record<string, Readonly<Record<Level, RecordedTaskFigures>>>>;
  readonly attacks: Readonly<Record<Level, RecordedAttackFigures>>;
}

/** Tells whether the recorded calls are there: they are no part of the repository. */
export function isRecordedThere(folder = RECORDED): boolean {
  return existsSync(join(folder, ATTACK_FILE));
}

/** Replays the recorded calls at every level. `share` takes each n-th task and attack, for a quick look. */
export async function measureRecorded(folder = RECORDED, share = 1): Promise<RecordedFigures> {
  const tasks: Record<string, Record<Level, RecordedTaskFigures>> = {};
  for (const name of TASK_FILES) {
    const file = recordedTasks.parse(read(folder, name));
    tasks[name] = await atEachLevel(file.tools, `the tools of ${name}`, (app) => taskFigures(app, everyNth(file.tasks, share), file.tools));
  }
  const { cases, userTools, attackerTools } = recordedAttacks.parse(read(folder, ATTACK_FILE));
  const tools = [...new Map([...userTools, ...attackerTools].map((one) => [one.name, one])).values()];
  return { tasks, attacks: await atEachLevel(tools, 'the attacked tools', (app) => attackFigures(app, everyNth(cases, share), tools)) };
}

function read(folder: string, name: string): unknown {
  return JSON.parse(readFileSync(join(folder, name), 'utf8'));
}

function everyNth<Item>(items: readonly Item[], nth: number): Item[] {
  return items.filter((_, index) => index % nth === 0);
}

async function atEachLevel<Figures>(
  tools: readonly RecordedTool[],
  name: string,
  measure: (app: AttackApplication) => Promise<Figures>,
): Promise<Record<Level, Figures>> {
  const measured = new Map<Level, Figures>();
  for (const level of LEVELS) {
    const app = await AttackApplication.start(replayedTools(name, tools), policyAt(level));
    measured.set(level, await measure(app));
    await app.close();
  }
  const at = (level: Level): Figures => {
    const figures = measured.get(level);
    if (!figures) throw new Error(`Nothing was measured at ${level}.`);
    return figures;
  };
  return { off: at('off'), trifecta: at('trifecta'), effect: at('effect'), taint: at('taint'), provenance: at('provenance') };
}

async function taskFigures(
  app: AttackApplication,
  tasks: readonly RecordedTask[],
  tools: readonly RecordedTool[],
): Promise<RecordedTaskFigures> {
  const changing = new Set(tools.flatMap(({ name, effect }) => (effect === 'read_only' ? [] : [name])));
  const figures = { tasks: 0, approvals: 0, tasksWithoutApproval: 0, changingTasks: 0, changingTasksWithoutApproval: 0, unlike: 0 };
  for (const { instruction, calls } of tasks) {
    const replay = new Replay(calls);
    const { result } = await app.run({ prompt: instruction, model: new ReplayedModel(replay), context: { replay }, reviewer: 'approves' });
    const asked = askedIn(result);
    const isChanging = calls.some(({ name }) => changing.has(name));
    figures.tasks += 1;
    figures.approvals += asked;
    figures.tasksWithoutApproval += asked === 0 ? 1 : 0;
    figures.changingTasks += isChanging ? 1 : 0;
    figures.changingTasksWithoutApproval += isChanging && asked === 0 ? 1 : 0;
    figures.unlike += result.toolCalls.filter(({ status }, index) => (status === 'succeeded') === (calls[index]?.error === true)).length;
  }
  return figures;
}

async function attackFigures(
  app: AttackApplication,
  attacks: readonly RecordedAttack[],
  tools: readonly RecordedTool[],
): Promise<RecordedAttackFigures> {
  const byName = new Map(tools.map((one) => [one.name, one]));
  const figures = { attacks: 0, effects: 0, leaks: 0 };
  for (const { userInstruction, userCall, response, attackerCalls, kind } of attacks) {
    const replay = new Replay([{ ...userCall, result: response }, ...attackerCalls]);
    const { result } = await app.run({ prompt: userInstruction, model: new ReplayedModel(replay), context: { replay } });
    const made = result.toolCalls.slice(1).filter(({ status }) => status === 'succeeded');
    const used = made.flatMap(({ declaredId = '' }) => byName.get(declaredId.slice(PREFIX.length)) ?? []);
    figures.attacks += 1;
    figures.effects += used.some(({ effect }) => effect !== 'read_only') ? 1 : 0;
    figures.leaks += kind === 'data_stealing' && used.some(({ labels }) => labels.egress) ? 1 : 0;
  }
  return figures;
}

function askedIn({ toolCalls }: LoopResult): number {
  return toolCalls.filter(({ decision }) => decision?.kind === 'require_approval').length;
}

const PREFIX = 'recorded__';

/** The calls of one recorded run, and how far it has come. */
class Replay {
  private next = 0;

  constructor(private readonly calls: readonly RecordedCall[]) {}

  take(): { readonly toolCallId: string; readonly call: RecordedCall } | undefined {
    const call = this.calls[this.next];
    this.next += 1;
    return call && { toolCallId: `call_${this.next - 1}`, call };
  }

  resultOf(toolCallId: string): JsonValue {
    const { result = null, error } = this.calls[Number(toolCallId.slice('call_'.length))] ?? {};
    if (error) throw new ToolError(typeof result === 'string' ? result : JSON.stringify(result));
    return result;
  }
}

function replayedTools(name: string, tools: readonly RecordedTool[]): AttackedTools {
  const declared = tools.map(({ name: own, description, parameters, effect, labels }): RawTool =>
    tool<JsonObject>({
      id: `${PREFIX}${own}`,
      description,
      input: parameters,
      effect,
      labels,
      reveal: 'all',
      execute: (_, context) => replayIn(context).resultOf(context.toolCallId),
    }),
  );
  return { name, tools: declared };
}

function replayIn({ context }: ToolCallContext): Replay {
  const replay = context['replay'];
  if (!(replay instanceof Replay)) throw new TypeError('A recorded run needs its calls in the context.');
  return replay;
}

/** Makes the recorded calls one after the other, whatever becomes of them: the worst case, in which a model obeys all that it reads. */
class ReplayedModel extends LanguageModel {
  readonly provider = 'replayed';
  readonly modelId = 'replayed';

  constructor(private readonly replay: Replay) {
    super();
  }

  stream(): AsyncIterable<ModelEvent> {
    const taken = this.replay.take();
    const events: ModelEvent[] = taken
      ? [
          {
            type: 'tool-call',
            toolCallId: taken.toolCallId,
            name: `${PREFIX}${taken.call.name}`,
            arguments: JSON.stringify(taken.call.args),
          },
          { type: 'finish', finishReason: 'tool_calls' },
        ]
      : [
          { type: 'text-delta', text: 'Done.' },
          { type: 'finish', finishReason: 'stop' },
        ];
    return ReadableStream.from(events);
  }
}
