import type { JsonValue } from '@toolloop/core';
import type { AttackedTools } from './attack.application.js';
import { crossAttacks } from './crossed.js';
import { policyAt, type ReplayedLevel } from './levels.js';
import {
  readAttacks,
  readTasks,
  RECORDED,
  type RecordedAttacks,
  type RecordedTask,
  TASK_FILES,
} from './recorded-data.js';
import { replayedTools } from './replay.js';
import {
  type AttackedRun,
  attackFigures,
  type AttackFigures,
  type BenignRun,
  type Curve,
  curveOf,
  type CurveRuns,
  taskFigures,
  type TaskFigures,
  underEachLevel,
  withDependence,
} from './replayed-figures.js';

export interface RecordedFigures {
  readonly tasks: Readonly<Record<string, Readonly<Record<ReplayedLevel, TaskFigures>>>>;
  readonly attacks: Readonly<Record<ReplayedLevel, AttackFigures>>;
  /** The attackers' texts in fields of the tasks' results, by domain. */
  readonly crossed: Readonly<Record<string, Readonly<Record<ReplayedLevel, AttackFigures>>>>;
  /** An employee's tasks of both domains, and the texts in their fields. */
  readonly curve: Curve;
}

type TaskFile = (typeof TASK_FILES)[number];

/** The curve takes each n-th run: its points are comparable, and the levels measure all. */
const SHARE_OF_THE_CURVE = 10;

/**
 * Replays the recorded calls at every level. `share` takes each n-th task and attack, for a quick
 * look.
 */
export async function measureRecorded(folder = RECORDED, share = 1): Promise<RecordedFigures> {
  const attacks = readAttacks(folder);
  const tasks: Record<string, Record<ReplayedLevel, TaskFigures>> = {};
  for (const name of TASK_FILES)
    for (const chatting of ['customer', 'employee'] as const) {
      const { tools, runs } = await chattedRuns(folder, name, { chatting, share });
      tasks[`${name}, ${chatting === 'customer' ? 'the customer' : 'an employee'} chats`] =
        await underEachLevel(tools, policyAt, (app) => taskFigures(app, runs));
    }
  const crossed: Record<string, Record<ReplayedLevel, AttackFigures>> = {};
  const ofCurve: CurveRuns[] = [];
  for (const [name, runs] of crossedRuns(folder, attacks)) {
    const { tools, runs: benign } = await chattedRuns(folder, name, {
      chatting: 'employee',
      share,
    });
    crossed[name] = await underEachLevel(tools, policyAt, (app) =>
      attackFigures(app, everyNth(runs, share)),
    );
    ofCurve.push({ tools, benign, attacked: everyNth(runs, share * SHARE_OF_THE_CURVE) });
  }
  return {
    tasks,
    attacks: await injectedFigures(attacks, share),
    crossed,
    curve: await curveOf(ofCurve),
  };
}

interface Chat {
  /** The customer owns their record, an employee owns none. */
  readonly chatting: 'customer' | 'employee';
  readonly share: number;
}

async function chattedRuns(
  folder: string,
  name: TaskFile,
  { chatting, share }: Chat,
): Promise<{ tools: AttackedTools; runs: BenignRun[] }> {
  const { tools: recorded, tasks } = readTasks(folder, name);
  const tools = replayedTools('recorded tools', recorded);
  const runs = everyNth(tasks, share).map((task): BenignRun => {
    const actor = chatting === 'customer' ? customerOf(task) : undefined;
    return { prompt: task.instruction, calls: task.calls, actor, isOnText: false };
  });
  return { tools, runs: await withDependence(tools, policyAt('values'), runs) };
}

/**
 * The attackers' texts in the fields of both domains; the training tasks of the shop have the same
 * tools and fields.
 */
function crossedRuns(
  folder: string,
  { cases }: RecordedAttacks,
): (readonly [TaskFile, AttackedRun[]])[] {
  const texts = [...new Set(cases.map(({ attackerInstruction }) => attackerInstruction))];
  const crossedIn = (name: TaskFile, parity: 0 | 1): AttackedRun[] =>
    crossAttacks(texts, readTasks(folder, name), parity).map(({ task, calls, attack }) => ({
      prompt: task.instruction,
      calls,
      attack,
    }));
  return [
    ['tau-retail.json', crossedIn('tau-retail.json', 0)],
    ['tau-airline.json', crossedIn('tau-airline.json', 1)],
  ];
}

function everyNth<Item>(items: readonly Item[], nth: number): Item[] {
  return items.filter((_, index) => index % nth === 0);
}

/**
 * Returns the id of the customer who chats: the one that was looked up, or else the first that a
 * call or a result names.
 */
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
  const id: unknown =
    typeof value === 'object' && value !== null ? Reflect.get(value, 'user_id') : undefined;
  return typeof id === 'string' ? id : undefined;
}

function injectedFigures(
  { cases, userTools, attackerTools }: RecordedAttacks,
  share: number,
): Promise<Record<ReplayedLevel, AttackFigures>> {
  const tools = [
    ...new Map([...userTools, ...attackerTools].map((one) => [one.name, one])).values(),
  ];
  const egress = new Set(tools.flatMap(({ name, labels }) => (labels.egress ? [name] : [])));
  const runs = cases.map(
    ({
      userInstruction,
      userCall,
      response,
      attackerInstruction,
      attackerCalls,
      kind,
    }): AttackedRun => {
      const carrying = attackerCalls.map((call) =>
        kind === 'data_stealing' && egress.has(call.name)
          ? { ...call, carries: 'result' as const }
          : call,
      );
      const attack = { pieces: [attackerInstruction], calls: carrying };
      return { prompt: userInstruction, calls: [{ ...userCall, result: response }], attack };
    },
  );
  return underEachLevel(replayedTools('recorded tools', tools), policyAt, (app) =>
    attackFigures(app, everyNth(runs, share)),
  );
}
