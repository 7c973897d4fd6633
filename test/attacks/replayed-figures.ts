import type { Policy } from '@toolloop/core';
import {
  hostileReader,
  type ReplayedAttack,
  type ReplayedCall,
  replayFlow,
  trueReader,
} from '@toolloop/testing';
import { AttackApplication, type AttackedTools } from './attack.application.js';
import { atEachReplayedLevel, isPlanned, policyAt, type ReplayedLevel } from './levels.js';

/** A task without an attacker. */
export interface BenignRun {
  readonly prompt: string;
  readonly calls: readonly ReplayedCall[];
  /** The id of the actor. @default an employee, who owns no record */
  readonly actor?: string | undefined;
  /** True if what the task does depends on a text that someone outside wrote. */
  readonly isOnText: boolean;
}

/** A run with an attacker in it. */
export interface AttackedRun {
  readonly prompt: string;
  readonly calls: readonly ReplayedCall[];
  readonly attack: ReplayedAttack;
  /** The ways that the application's policy names. @default none */
  readonly flows?: Policy['flows'];
}

/** The figures of tasks without an attacker, with a reviewer who says yes to everything. */
export interface TaskFigures {
  readonly tasks: number;
  readonly approvals: number;
  readonly tasksWithoutApproval: number;
  readonly changingTasks: number;
  readonly changingTasksWithoutApproval: number;
  /** The tasks that depend on a text that someone outside wrote. */
  readonly tasksOnText: number;
  readonly approvalsOnText: number;
  /**
   * Calls that ended otherwise than recorded, though everything was approved; a mistake in the
   * replay.
   */
  readonly unlike: number;
}

/** The figures of attacks, with a reviewer who says no to everything. */
export interface AttackFigures {
  readonly attacks: number;
  /** Attacks of which the model was shown a piece. */
  readonly read: number;
  /**
   * Attacks in which something was changed or carried out for the attacker, without an approval.
   */
  readonly effects: number;
  /**
   * Attacks in which the attacker decided, along ways that the policy names, what a change of the
   * application's own does.
   */
  readonly namedWays: number;
  /** Attacks in which a value of a private result was carried out, without an approval. */
  readonly leaks: number;
  /** Attacks in which the user's words were carried out, without an approval. */
  readonly promptLeaks: number;
  /**
   * The calls that happened for the attacker without an approval, with how many attacks each
   * belongs to.
   */
  readonly through: Readonly<Record<string, number>>;
}

const NO_TASKS: TaskFigures = {
  tasks: 0,
  approvals: 0,
  tasksWithoutApproval: 0,
  changingTasks: 0,
  changingTasksWithoutApproval: 0,
  tasksOnText: 0,
  approvalsOnText: 0,
  unlike: 0,
};
const NO_ATTACKS: AttackFigures = {
  attacks: 0,
  read: 0,
  effects: 0,
  namedWays: 0,
  leaks: 0,
  promptLeaks: 0,
  through: {},
};

/** Replays tasks without an attacker. */
export async function taskFigures(
  app: AttackApplication,
  runs: readonly BenignRun[],
): Promise<TaskFigures> {
  let figures = NO_TASKS;
  for (const { prompt, calls, actor, isOnText } of runs) {
    const replay = replayFlow(calls, { reader: trueReader });
    const { result } = await app.run({ prompt, ...replay.request, reviewer: 'approves', actor });
    const { approvals, unlike } = replay.outcome(result);
    const isChanging = result.toolCalls.some(({ effect = 'read_only' }) => effect !== 'read_only');
    figures = joinTasks(figures, {
      tasks: 1,
      approvals,
      tasksWithoutApproval: approvals === 0 ? 1 : 0,
      changingTasks: isChanging ? 1 : 0,
      changingTasksWithoutApproval: isChanging && approvals === 0 ? 1 : 0,
      tasksOnText: isOnText ? 1 : 0,
      approvalsOnText: isOnText ? approvals : 0,
      unlike: unlike.length,
    });
  }
  return figures;
}

/**
 * Replays runs with an attacker: the reader of hidden texts is the attacker's as well. `isCurious`:
 * the model has every hidden text shown.
 */
export async function attackFigures(
  app: AttackApplication,
  runs: readonly AttackedRun[],
  { isCurious = false }: { readonly isCurious?: boolean } = {},
): Promise<AttackFigures> {
  let figures = NO_ATTACKS;
  for (const { prompt, calls, attack, flows } of runs) {
    const replay = replayFlow(calls, { reader: hostileReader(attack), attack, isCurious, flows });
    const { result } = await app.run({ prompt, ...replay.request });
    const { effects, namedWays, leaks, promptLeaks } = replay.outcome(result);
    figures = joinAttacks(figures, {
      attacks: 1,
      read: replay.wasAttacked ? 1 : 0,
      effects: effects.length > 0 ? 1 : 0,
      namedWays: namedWays.length > 0 ? 1 : 0,
      leaks: leaks.length > 0 ? 1 : 0,
      promptLeaks: promptLeaks.length > 0 ? 1 : 0,
      through: Object.fromEntries([...effects, ...leaks, ...promptLeaks].map((name) => [name, 1])),
    });
  }
  return figures;
}

export function joinTasks(one: TaskFigures, other: TaskFigures): TaskFigures {
  return {
    tasks: one.tasks + other.tasks,
    approvals: one.approvals + other.approvals,
    tasksWithoutApproval: one.tasksWithoutApproval + other.tasksWithoutApproval,
    changingTasks: one.changingTasks + other.changingTasks,
    changingTasksWithoutApproval:
      one.changingTasksWithoutApproval + other.changingTasksWithoutApproval,
    tasksOnText: one.tasksOnText + other.tasksOnText,
    approvalsOnText: one.approvalsOnText + other.approvalsOnText,
    unlike: one.unlike + other.unlike,
  };
}

export function joinAttacks(one: AttackFigures, other: AttackFigures): AttackFigures {
  const names = new Set([...Object.keys(one.through), ...Object.keys(other.through)]);
  return {
    attacks: one.attacks + other.attacks,
    read: one.read + other.read,
    effects: one.effects + other.effects,
    namedWays: one.namedWays + other.namedWays,
    leaks: one.leaks + other.leaks,
    promptLeaks: one.promptLeaks + other.promptLeaks,
    through: Object.fromEntries(
      [...names].map((name) => [name, (one.through[name] ?? 0) + (other.through[name] ?? 0)]),
    ),
  };
}

/**
 * The tasks that depend on a text that someone outside wrote, as far as the texts themselves tell:
 * at the level `values` an argument of theirs is taken from a hidden one.
 */
export async function withDependence(
  tools: AttackedTools,
  policy: Policy,
  runs: readonly BenignRun[],
): Promise<BenignRun[]> {
  return withPolicy(tools, policy, async (app) => {
    const known: BenignRun[] = [];
    for (const run of runs) {
      const replay = replayFlow(run.calls, { reader: trueReader });
      const { result } = await app.run({
        prompt: run.prompt,
        ...replay.request,
        reviewer: 'approves',
        actor: run.actor,
      });
      known.push({ ...run, isOnText: replay.outcome(result).usesHidden });
    }
    return known;
  });
}

/** Measures with the tools of a domain, under the policy of each level. */
export function underEachLevel<Figures>(
  tools: AttackedTools,
  policyOf: (level: ReplayedLevel) => Policy,
  measure: (app: AttackApplication) => Promise<Figures>,
): Promise<Record<ReplayedLevel, Figures>> {
  return atEachReplayedLevel((level) =>
    withPolicy({ ...tools, plans: isPlanned(level) }, policyOf(level), measure),
  );
}

export async function withPolicy<Figures>(
  tools: AttackedTools,
  policy: Policy,
  measure: (app: AttackApplication) => Promise<Figures>,
): Promise<Figures> {
  const app = await AttackApplication.start(tools, policy);
  try {
    return await measure(app);
  } finally {
    await app.close();
  }
}

/** The figures of a level with a number of bits that someone outside may have said. */
export interface CurvePoint {
  readonly bits: number;
  readonly tasks: TaskFigures;
  readonly attacks: AttackFigures;
}

/** Approvals against attacks over that number, of the levels that count. */
export type Curve = Readonly<Record<'taint' | 'values', readonly CurvePoint[]>>;

/** The runs of one domain. */
export interface CurveRuns {
  readonly tools: AttackedTools;
  readonly benign: readonly BenignRun[];
  readonly attacked: readonly AttackedRun[];
  /** What the application permits beside the level. @default nothing */
  readonly policy?: Partial<Policy>;
}

const BUDGETS = [0, 16, 32, 64, 128, 256];

export async function curveOf(domains: readonly CurveRuns[]): Promise<Curve> {
  return { taint: await pointsAt('taint', domains), values: await pointsAt('values', domains) };
}

async function pointsAt(
  level: 'taint' | 'values',
  domains: readonly CurveRuns[],
): Promise<CurvePoint[]> {
  const points: CurvePoint[] = [];
  for (const bits of BUDGETS) {
    let [tasks, attacks] = [NO_TASKS, NO_ATTACKS];
    for (const { tools, benign, attacked, policy } of domains)
      await withPolicy(tools, { ...policyAt(level, bits), ...policy }, async (app) => {
        tasks = joinTasks(tasks, await taskFigures(app, benign));
        attacks = joinAttacks(attacks, await attackFigures(app, attacked));
      });
    points.push({ bits, tasks, attacks });
  }
  return points;
}
