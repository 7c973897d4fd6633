import { randomUUID } from 'node:crypto';
import { ConfigurationError, type Finding, type ToolSpec } from '@toolloop/protocol';
import { closestTo } from '../../catalog/closest-tools.js';
import { isNamed } from '../../catalog/tool-selection.js';
import {
  type InjectionResult,
  type RunBeginning,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '../../contracts/injection.js';
import { SELECTORS, type ToolSelector } from '../../contracts/tool-selector.js';
import type { RunContext } from '../../contracts/tool-call.js';
import { defineOptions } from '../../findings/options.js';
import {
  FUNCTION,
  listOfOptions,
  namedOptions,
  needed,
  TEXT,
} from '../../findings/option-rules.js';
import {
  isTrigger,
  isTriggered,
  listed,
  NAMES,
  type ResultTrigger,
  triggersFound,
} from './triggers.js';

/**
 * Creates a strategy that leads a run through phases, each with its own tools.
 *
 * @throws ConfigurationError for wrong options, and for phases that do not exist or cannot be
 *   reached
 * @example
 * injection: [
 *   phases({
 *     start: 'browse',
 *     states: {
 *       browse: { tools: ['catalog__*'], to: [{ on: 'cart__open', phase: 'checkout' }] },
 *       checkout: { tools: ['cart__*'] },
 *     },
 *   }),
 * ]
 */
export function phases<Phase extends string>(options: PhasesOptions<Phase>): ToolInjectionStrategy {
  return new PhasesStrategy(options);
}

/** A transition into another phase. All given conditions must hold for one result. */
export interface PhaseChange<Phase extends string = string> extends Omit<ResultTrigger, 'after'> {
  /** The tools of which one must have succeeded: declared ids, short names or globs. */
  readonly on?: string | readonly string[];
  readonly phase: Phase;
}

/** A phase of a run. */
export interface PhaseState<Phase extends string = string> {
  /** The tools of the catalog that the phase has; phases may share tools. */
  readonly tools: readonly ToolSelector[];
  /**
   * The transitions, of which the first that holds applies. @default none: the run stays in the
   * phase
   */
  readonly to?: readonly PhaseChange<Phase>[];
}

/**
 * Options of {@link phases}: a state machine over sets of tools. Tools that no phase names are in
 * all of them.
 */
export interface PhasesOptions<Phase extends string = string> {
  readonly start: NoInfer<Phase>;
  readonly states: Readonly<Record<Phase, PhaseState<NoInfer<Phase>>>>;
  /** The name of the strategy in events. @default 'phases' */
  readonly name?: string;
}

interface Change extends PhaseChange {
  readonly trigger: ResultTrigger;
  /** The name of the transition, unique among those of all phases. */
  readonly name: string;
}

/** A compiled phase. */
interface KnownPhase {
  readonly tools: readonly ToolSelector[];
  readonly to: readonly Change[];
}

/**
 * Adds the tools of the phase that a run enters, and removes those of the phase that it leaves. The
 * phase is in the run's state.
 */
class PhasesStrategy extends ToolInjectionStrategy {
  override readonly name: string;
  override readonly withheld: readonly ToolSelector[];
  override readonly awaited: readonly string[];
  private readonly phases: ReadonlyMap<string, KnownPhase>;
  private readonly start: string;
  private readonly key: string;
  /** The key of the run whose phase is in the state. */
  private readonly runKey: string;

  constructor(options: PhasesOptions) {
    super();
    OPTIONS.assert(options, 'phases');
    const { start, states, name = 'phases' } = options;
    this.name = name;
    this.key = `toolloop:${name}:${randomUUID()}`;
    this.runKey = `${this.key}:run`;
    this.start = start;
    this.phases = new Map(
      Object.entries(states).map(([phase, { tools, to = [] }]) => [
        phase,
        { tools, to: to.map((change, index) => withTrigger(change, `${phase}:${index}`)) },
      ]),
    );
    const findings = phaseFindings(`phases "${name}"`, start, this.phases);
    if (findings.length > 0) throw new ConfigurationError(findings);
    const all = [...this.phases.values()];
    this.withheld = all.flatMap(({ tools }) => tools);
    this.awaited = all.flatMap(({ to }) => to.flatMap(({ on }) => listed(on)));
  }

  /**
   * Begins a run in its phase. If the run waited and its state is lost, the phase follows from its
   * records, or from the tools it had if an artifact decided it. A sub-run begins in the phase of
   * its outer run.
   */
  override begin(beginning: RunBeginning): ToolInjection {
    const { run, withheld, records } = beginning;
    const noted = this.phaseIn(run);
    const recorded = (): string =>
      records.reduce((at, record) => this.next(at, { record, live: undefined }), noted);
    const isItsOwn = run.state.get(this.runKey) === run.runId;
    const phase = isItsOwn ? noted : this.phaseShown(recorded(), beginning);
    this.note(phase, run);
    return { add: withheld.named(this.toolsOf(phase)) };
  }

  /**
   * Checks the transitions of every phase, since another result of the step may change the phase
   * before this one is evaluated.
   */
  override notice(result: Pick<InjectionResult, 'record' | 'live'>): readonly string[] | undefined {
    const triggers = [...this.phases.values()].flatMap(({ to }) =>
      to.map(({ name, trigger }) => [name, trigger] as const),
    );
    return triggersFound(new Map(triggers), result);
  }

  override evaluate({ run, last, withheld, toolset }: ToolInjectionContext): ToolInjection {
    const left = this.phaseIn(run);
    const phase = this.next(left, last);
    if (phase === left) return {};
    const add = withheld.named(this.toolsOf(phase));
    const staying = new Set(add.map(({ spec }) => spec.id));
    const ours = new Set(withheld.all.map(({ spec }) => spec.id));
    const remove = toolset.filter(({ id }) => ours.has(id) && !staying.has(id)).map(({ id }) => id);
    this.note(phase, run);
    return {
      add,
      remove,
      cause: this.causeOf(left, [...toolset, ...withheld.all.map(({ spec }) => spec)]),
    };
  }

  private phaseIn({ state }: RunContext): string {
    const noted = state.get(this.key);
    return typeof noted === 'string' ? noted : this.start;
  }

  private note(phase: string, { state, runId }: RunContext): void {
    state.set(this.key, phase).set(this.runKey, runId);
  }

  /**
   * Finds the phase from the tools that a run had. Phases with the same tools are distinguished by
   * the records.
   */
  private phaseShown(recorded: string, { withheld, shown }: RunBeginning): string {
    const isByArtifact = [...this.phases.values()].some(({ to }) => to.some(({ found }) => found));
    if (!shown || !isByArtifact) return recorded;
    const ours = new Set(withheld.all.map(({ spec }) => spec.id));
    const there = new Set(shown.filter((id) => ours.has(id)));
    const isShown = (phase: string): boolean => {
      const ids = new Set(withheld.named(this.toolsOf(phase)).map(({ spec }) => spec.id));
      return ids.size === there.size && [...ids].every((id) => there.has(id));
    };
    return [recorded, ...this.phases.keys()].find(isShown) ?? recorded;
  }

  private next(phase: string, result: Parameters<typeof isTriggered>[1]): string {
    return (
      this.phases.get(phase)?.to.find(({ trigger, name }) => isTriggered(trigger, result, name))
        ?.phase ?? phase
    );
  }

  private toolsOf(phase: string): readonly ToolSelector[] {
    return this.phases.get(phase)?.tools ?? [];
  }

  /** Makes the cause of a removal, which names only tools that the run has or may get. */
  private causeOf(
    phase: string,
    reachable: readonly ToolSpec[],
  ): NonNullable<ToolInjection['cause']> {
    const names = [...this.phases.values()].flatMap(({ to }) =>
      to.filter((change) => change.phase === phase).flatMap(({ on }) => listed(on)),
    );
    const ids = new Set(
      reachable.filter((spec) => names.some((name) => isNamed(spec, name))).map(({ id }) => id),
    );
    return { kind: 'phase', phase, leadingBack: [...ids].slice(0, MOST_NAMES) };
  }
}

const MOST_NAMES = 5;

const CHANGE = defineOptions<PhaseChange>({
  on: NAMES,
  when: FUNCTION,
  found: FUNCTION,
  phase: needed(TEXT),
});
const STATE = defineOptions<PhaseState>({
  tools: needed(SELECTORS),
  to: listOfOptions(CHANGE, 'a list of changes'),
});
const OPTIONS = defineOptions<PhasesOptions>({
  start: needed(TEXT),
  states: needed(namedOptions(STATE, 'phase')),
  name: TEXT,
});

function withTrigger(change: PhaseChange, name: string): Change {
  const { on, when, found } = change;
  return {
    ...change,
    name,
    trigger: {
      ...(on !== undefined && { after: listed(on) }),
      ...(when && { when }),
      ...(found && { found }),
    },
  };
}

function phaseFindings(at: string, start: string, all: ReadonlyMap<string, KnownPhase>): Finding[] {
  const names = [...all.keys()];
  const unknown = (phase: string): Finding[] => {
    if (all.has(phase)) return [];
    const remedy = `Did you mean ${closestTo(phase, names, { most: 1 }).join('') || names.join(', ') || 'to declare it'}?`;
    return [{ at, problem: `There is no phase "${phase}".`, remedy }];
  };
  const changes = [...all].flatMap(([from, { to }]) => to.map((change) => ({ from, ...change })));
  const aimless = changes.filter(({ trigger }) => !isTrigger(trigger));
  const reached = reachedFrom(start, all);
  return [
    ...unknown(start),
    ...changes.flatMap(({ phase }) => unknown(phase)),
    ...aimless.map(({ from, phase }) => ({
      at,
      problem: `The transition from "${from}" to "${phase}" has no trigger.`,
      remedy: 'Set `on`, `when` or `found`.',
    })),
    ...(all.has(start) ? names.filter((name) => !reached.has(name)) : []).map((name) => ({
      at,
      problem: `The phase "${name}" is never reached.`,
      remedy: 'Name it in the `to` of another phase, or remove it.',
    })),
  ];
}

/** Finds the phases that can be reached. The set grows while it is iterated. */
function reachedFrom(start: string, all: ReadonlyMap<string, KnownPhase>): ReadonlySet<string> {
  const reached = new Set([start]);
  for (const phase of reached)
    for (const change of all.get(phase)?.to ?? []) reached.add(change.phase);
  return reached;
}
