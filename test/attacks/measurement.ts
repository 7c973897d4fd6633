import { AttackApplication, type Reviewer } from './attack.application.js';
import { figuresOf, type FiguresByLevel } from './figures.js';
import { atEachLevel, ofEachLevel, policyAt, type Level } from './levels.js';
import { pairsOf, type Pack } from './pack.js';
import { packTools } from './pack-tools.js';
import { tryOut, type TrialOutcome } from './trial.js';

/** What a set of packs came to. */
export interface Measurement {
  readonly figures: FiguresByLevel;
  /** Attacks that got through at each level, as `pack/task/injection: tool, tool`. */
  readonly through: Readonly<Record<Level, readonly string[]>>;
  /** Pairs whose injection no result showed, which measure nothing; a mistake in the pack. */
  readonly unseen: readonly string[];
}

/** Tries every task alone and under every injection, at every level. */
export async function measure(packs: readonly Pack[], reviewer: Reviewer): Promise<Measurement> {
  const outcomes = await atEachLevel((level) => outcomesAt(level, packs, reviewer));
  return {
    figures: ofEachLevel(outcomes, (found) => figuresOf(found.map(({ outcome }) => outcome))),
    through: ofEachLevel(outcomes, (found) => found.flatMap(throughIn)),
    unseen: outcomes.off.flatMap(({ pack, outcome }) =>
      outcome.trial.injection && !outcome.attacked ? [titleOf(pack, outcome)] : [],
    ),
  };
}

interface PackOutcome {
  readonly pack: string;
  readonly outcome: TrialOutcome;
}

async function outcomesAt(
  level: Level,
  packs: readonly Pack[],
  reviewer: Reviewer,
): Promise<PackOutcome[]> {
  const outcomes: PackOutcome[] = [];
  for (const pack of packs) {
    const app = await AttackApplication.start(packTools(pack), policyAt(level));
    for (const trial of [...pack.userTasks.map((task) => ({ task })), ...pairsOf(pack)])
      outcomes.push({ pack: pack.name, outcome: await tryOut(app, pack, { ...trial, reviewer }) });
    await app.close();
  }
  return outcomes;
}

function throughIn({ pack, outcome }: PackOutcome): string[] {
  const tools = [...new Set([...outcome.effects, ...outcome.leaks, ...outcome.promptLeaks])];
  return tools.length > 0 ? [`${titleOf(pack, outcome)}: ${tools.join(', ')}`] : [];
}

function titleOf(pack: string, { trial: { task, injection } }: TrialOutcome): string {
  return `${pack}/${task.id}/${injection?.id ?? 'benign'}`;
}
