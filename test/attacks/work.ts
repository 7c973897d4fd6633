import { ofEachReplayedLevel, policyAt, type ReplayedLevel } from './levels.js';
import {
  attackFigures,
  type AttackFigures,
  type BenignRun,
  type Curve,
  curveOf,
  joinAttacks,
  joinTasks,
  taskFigures,
  type TaskFigures,
  underEachLevel,
  withPolicy,
} from './replayed-figures.js';
import { HELD, readWork, WORK, type WorkDomain, type WorkTask } from './work-data.js';

/** The figures of tasks and of the attacks in their texts. */
export interface WorkFigures {
  readonly tasks: TaskFigures;
  readonly attacks: AttackFigures;
  /** The attacks of those who know the prompt, the tools and the rules. */
  readonly knowing: AttackFigures;
}

export interface WorkReview {
  /** The figures, by folder. */
  readonly levels: Readonly<Record<string, Readonly<Record<ReplayedLevel, WorkFigures>>>>;
  /**
   * The tasks in which a person was asked at `values` though the changes were planned, with how
   * often, by folder; not of those that no one is to look at.
   */
  readonly asked: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** Measures the tasks of all folders at every level. */
export async function measureWork(folders: readonly string[] = WORK): Promise<WorkReview> {
  const levels: Record<string, Record<ReplayedLevel, WorkFigures>> = {};
  const asked: Record<string, Record<string, number>> = {};
  for (const folder of folders) {
    const domains = readWork(folder);
    levels[folder] = await folderFigures(domains);
    if (folder !== HELD) asked[folder] = await askedIn(domains);
  }
  return { levels, asked };
}

/**
 * The approvals and the attacks of all folders, over the bits from outside that a policy permits.
 */
export function workCurve(folders: readonly string[] = WORK): Promise<Curve> {
  return curveOf(folders.flatMap(readWork).map(curveRuns));
}

async function folderFigures(
  domains: readonly WorkDomain[],
): Promise<Record<ReplayedLevel, WorkFigures>> {
  const [first, ...others] = domains;
  if (!first) throw new TypeError('The folder has no tasks.');
  let joined = await domainFigures(first);
  for (const domain of others) {
    const figures = await domainFigures(domain);
    joined = ofEachReplayedLevel(joined, ({ tasks, attacks, knowing }, level) => ({
      tasks: joinTasks(tasks, figures[level].tasks),
      attacks: joinAttacks(attacks, figures[level].attacks),
      knowing: joinAttacks(knowing, figures[level].knowing),
    }));
  }
  return joined;
}

function domainFigures({
  tools,
  policy,
  tasks,
}: WorkDomain): Promise<Record<ReplayedLevel, WorkFigures>> {
  return underEachLevel(
    tools,
    (level) => ({ ...policyAt(level), ...policy }),
    async (app) => ({
      tasks: await taskFigures(app, tasks.map(benign)),
      attacks: await attackFigures(
        app,
        tasks.map(({ attacked }) => attacked),
      ),
      knowing: await attackFigures(
        app,
        tasks.map(({ attackedKnowing }) => attackedKnowing),
      ),
    }),
  );
}

async function askedIn(domains: readonly WorkDomain[]): Promise<Record<string, number>> {
  const asked: Record<string, number> = {};
  for (const { name, tools, policy, tasks } of domains)
    await withPolicy(
      { ...tools, plans: true },
      { ...policyAt('values, planned'), ...policy },
      async (app) => {
        for (const task of tasks) {
          const { approvals } = await taskFigures(app, [benign(task)]);
          if (approvals > 0) asked[`${name}/${task.id}, named by the ${task.named}`] = approvals;
        }
      },
    );
  return asked;
}

function curveRuns({ tools, policy, tasks }: WorkDomain) {
  return {
    tools,
    policy,
    benign: tasks.map(benign),
    attacked: tasks.flatMap(({ attacked, attackedKnowing }) => [attacked, attackedKnowing]),
  };
}

function benign({ prompt, calls, named }: WorkTask): BenignRun {
  return { prompt, calls, isOnText: named === 'text' };
}
