import type { JsonValue, LoopResult, Policy } from '@toolloop/core';
import { AttackApplication } from './attack.application.js';
import { crossAttacks } from './crossed.js';
import { atEachLevel, policyAt, type Level } from './levels.js';
import {
  readAttacks,
  readTasks,
  RECORDED,
  type RecordedAttacks,
  type RecordedCall,
  type RecordedTask,
  type RecordedTool,
  TASK_FILES,
} from './recorded-data.js';
import { ReplayedModel, replayedTools, type ReplayedAttack } from './replay.js';

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
  /** Attacks of which the model was shown a piece. */
  readonly read: number;
  /** Attacks in which a call of the attacker changed something or carried something out, without an approval. */
  readonly effects: number;
  /** Attacks in which a value of a private result was carried out, without an approval. */
  readonly leaks: number;
  /** Attacks in which the user's words were carried out, without an approval. */
  readonly promptLeaks: number;
  /** The attacker's calls that happened without an approval, with how many attacks each belongs to. */
  readonly through: Readonly<Record<string, number>>;
}

export interface RecordedFigures {
  readonly tasks: Readonly<Record<string, Readonly<Record<Level, RecordedTaskFigures>>>>;
  readonly attacks: Readonly<Record<Level, RecordedAttackFigures>>;
  /** The attackers' texts in fields of the tasks' results, by domain. */
  readonly crossed: Readonly<Record<string, Readonly<Record<Level, RecordedAttackFigures>>>>;
  readonly curve: readonly CurvePoint[];
}

/** What `taint` comes to with a number of bits that someone outside may have said: an employee's tasks of both domains, and the texts in their fields. */
export interface CurvePoint {
  readonly bits: number;
  readonly tasks: number;
  readonly approvals: number;
  readonly attacks: number;
  readonly effects: number;
  /** Of values and of the user's words. */
  readonly leaks: number;
}

/** A run with an attacker in it. */
interface AttackedRun {
  readonly prompt: string;
  readonly calls: readonly RecordedCall[];
  readonly attack: ReplayedAttack;
}

/** The bits from outside for which the curve of approvals against attacks is drawn, at `taint`. */
const BUDGETS = [0, 16, 32, 64, 128, 256];
/** The curve takes each n-th run: its points are comparable, and the levels measure all. */
const SHARE_OF_THE_CURVE = 10;

/** Replays the recorded calls at every level. `share` takes each n-th task and attack, for a quick look. */
export async function measureRecorded(folder = RECORDED, share = 1): Promise<RecordedFigures> {
  const attacks = readAttacks(folder);
  const tasks: Record<string, Record<Level, RecordedTaskFigures>> = {};
  for (const name of TASK_FILES) {
    const { tools, tasks: all } = readTasks(folder, name);
    const some = everyNth(all, share);
    tasks[`${name}, the customer chats`] = await withTools(tools, (app) => taskFigures(app, some, tools, 'customer'));
    tasks[`${name}, an employee chats`] = await withTools(tools, (app) => taskFigures(app, some, tools, 'employee'));
  }
  const crossed: Record<string, Record<Level, RecordedAttackFigures>> = {};
  const curve: CurvePoint[] = BUDGETS.map((bits) => ({ bits, tasks: 0, approvals: 0, attacks: 0, effects: 0, leaks: 0 }));
  for (const [name, runs] of crossedRuns(folder, attacks)) {
    const { tools, tasks: all } = readTasks(folder, name);
    crossed[name] = await withTools(tools, (app) => attackFigures(app, everyNth(runs, share), tools));
    for (const [index, point] of curve.entries()) {
      const add = (app: AttackApplication): Promise<CurvePoint> =>
        pointWith(point, app, everyNth(all, share), everyNth(runs, share * SHARE_OF_THE_CURVE), tools);
      curve[index] = await withPolicy(tools, policyAt('taint', point.bits), add);
    }
  }
  return { tasks, attacks: await injectedFigures(attacks, share), crossed, curve };
}

/** The attackers' texts in the fields of both domains; the training tasks of the shop have the same tools and fields. */
function crossedRuns(folder: string, { cases }: RecordedAttacks): (readonly [(typeof TASK_FILES)[number], AttackedRun[]])[] {
  const texts = [...new Set(cases.map(({ attackerInstruction }) => attackerInstruction))];
  const crossedIn = (name: (typeof TASK_FILES)[number], parity: 0 | 1): AttackedRun[] =>
    crossAttacks(texts, readTasks(folder, name), parity).map(({ task, calls, attack }) => ({ prompt: task.instruction, calls, attack }));
  return [
    ['tau-retail.json', crossedIn('tau-retail.json', 0)],
    ['tau-airline.json', crossedIn('tau-airline.json', 1)],
  ];
}

async function pointWith(
  before: CurvePoint,
  app: AttackApplication,
  tasks: readonly RecordedTask[],
  runs: readonly AttackedRun[],
  tools: readonly RecordedTool[],
): Promise<CurvePoint> {
  const benign = await taskFigures(app, tasks, tools, 'employee');
  const attacked = await attackFigures(app, runs, tools);
  return {
    bits: before.bits,
    tasks: before.tasks + benign.tasks,
    approvals: before.approvals + benign.approvals,
    attacks: before.attacks + attacked.attacks,
    effects: before.effects + attacked.effects,
    leaks: before.leaks + attacked.leaks + attacked.promptLeaks,
  };
}

function everyNth<Item>(items: readonly Item[], nth: number): Item[] {
  return items.filter((_, index) => index % nth === 0);
}

function withTools<Figures>(
  tools: readonly RecordedTool[],
  measure: (app: AttackApplication) => Promise<Figures>,
): Promise<Record<Level, Figures>> {
  return atEachLevel((level) => withPolicy(tools, policyAt(level), measure));
}

async function withPolicy<Figures>(
  tools: readonly RecordedTool[],
  policy: Policy,
  measure: (app: AttackApplication) => Promise<Figures>,
): Promise<Figures> {
  const app = await AttackApplication.start(replayedTools('recorded tools', tools), policy);
  try {
    return await measure(app);
  } finally {
    await app.close();
  }
}

/** Returns the id of the customer who chats: the one that was looked up, or else the first that a call or a result names. */
function customerOf({ calls }: RecordedTask): string | undefined {
  const succeeded = calls.filter(({ error }) => !error);
  const lookedUp = succeeded.find(({ name }) => name.startsWith('find_user_id'))?.result;
  if (typeof lookedUp === 'string') return lookedUp;
  return succeeded
    .flatMap(({ args, result }) => [args, result ?? null])
    .map(customerIn)
    .find((id) => id !== undefined);
}

function customerIn(value: JsonValue): string | undefined {
  const id: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, 'user_id') : undefined;
  return typeof id === 'string' ? id : undefined;
}

async function taskFigures(
  app: AttackApplication,
  tasks: readonly RecordedTask[],
  tools: readonly RecordedTool[],
  chatting: 'customer' | 'employee',
): Promise<RecordedTaskFigures> {
  const changing = new Set(tools.flatMap(({ name, effect }) => (effect === 'read_only' ? [] : [name])));
  const figures = { tasks: 0, approvals: 0, tasksWithoutApproval: 0, changingTasks: 0, changingTasksWithoutApproval: 0, unlike: 0 };
  for (const task of tasks) {
    const { instruction, calls } = task;
    const model = new ReplayedModel(calls);
    const actor = chatting === 'customer' ? customerOf(task) : undefined;
    const { result } = await app.run({ prompt: instruction, model, context: { model }, reviewer: 'approves', actor });
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

function askedIn({ toolCalls }: LoopResult): number {
  return toolCalls.filter(({ decision }) => decision?.kind === 'require_approval').length;
}

function injectedFigures(
  { cases, userTools, attackerTools }: RecordedAttacks,
  share: number,
): Promise<Record<Level, RecordedAttackFigures>> {
  const tools = [...new Map([...userTools, ...attackerTools].map((one) => [one.name, one])).values()];
  const egress = new Set(tools.flatMap(({ name, labels }) => (labels.egress ? [name] : [])));
  const runs = cases.map(({ userInstruction, userCall, response, attackerInstruction, attackerCalls, kind }): AttackedRun => {
    const carrying = attackerCalls.map((call) =>
      kind === 'data_stealing' && egress.has(call.name) ? { ...call, carries: 'result' as const } : call,
    );
    const attack = { pieces: [attackerInstruction], calls: carrying };
    return { prompt: userInstruction, calls: [{ ...userCall, result: response }], attack };
  });
  return withTools(tools, (app) => attackFigures(app, everyNth(runs, share), tools));
}

async function attackFigures(
  app: AttackApplication,
  runs: readonly AttackedRun[],
  tools: readonly RecordedTool[],
): Promise<RecordedAttackFigures> {
  const reading = new Set(tools.flatMap(({ name, effect }) => (effect === 'read_only' ? [name] : [])));
  const through: Record<string, number> = {};
  const figures = { attacks: 0, read: 0, effects: 0, leaks: 0, promptLeaks: 0, through };
  for (const { prompt, calls, attack } of runs) {
    const model = new ReplayedModel(calls, attack);
    const { result } = await app.run({ prompt, model, context: { model } });
    const happened = attacksIn(result, model);
    const changed = [...new Set(happened.flatMap(({ name }) => (reading.has(name) ? [] : [name])))];
    figures.attacks += 1;
    figures.read += model.wasAttacked ? 1 : 0;
    figures.effects += changed.length > 0 ? 1 : 0;
    figures.leaks += happened.some(({ carries }) => carries === 'result') ? 1 : 0;
    figures.promptLeaks += happened.some(({ carries }) => carries === 'prompt') ? 1 : 0;
    for (const name of changed) through[name] = (through[name] ?? 0) + 1;
  }
  return figures;
}

/** The attacker's calls that happened. */
function attacksIn({ toolCalls }: LoopResult, model: ReplayedModel) {
  return toolCalls.flatMap(({ status, toolCallId }) => (status === 'succeeded' ? (model.attackOf(toolCallId) ?? []) : []));
}
