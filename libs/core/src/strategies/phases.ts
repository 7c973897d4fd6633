import { randomUUID } from 'node:crypto';
import { ConfigurationError, type Finding, type ToolSpec } from '@toolloop/protocol';
import { closestTo, isNamed } from '../catalog/tool-selection.js';
import {
  type InjectionResult,
  type RunBeginning,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '../contracts/injection.js';
import type { ToolSelector } from '../contracts/loop-request.js';
import type { RunContext } from '../contracts/tool-call.js';
import { FUNCTION, OBJECT, optionFindings, type OptionValue, type OptionValues, TEXT } from '../findings/options.js';
import { isTrigger, isTriggered, listed, NAMES, type ResultTrigger, SELECTORS, triggersFound } from './triggers.js';

/** The way into another phase. Everything that is given must hold of one result. */
export interface PhaseChange<Phase extends string = string> extends Omit<ResultTrigger, 'after'> {
  /** Tools, one of which succeeded: declared ids, short names or globs. */
  readonly on?: string | readonly string[];
  readonly phase: Phase;
}

/** A phase of a run. */
export interface PhaseState<Phase extends string = string> {
  /** Tools of the catalog that are there in it; several phases may share some. */
  readonly tools: readonly ToolSelector[];
  /** The first that holds is taken. @default none: the run stays in the phase */
  readonly to?: readonly PhaseChange<Phase>[];
}

/** A state machine over sets of tools. Tools that no phase names are there in all of them. */
export interface PhasesOptions<Phase extends string = string> {
  readonly start: NoInfer<Phase>;
  readonly states: Readonly<Record<Phase, PhaseState<NoInfer<Phase>>>>;
  /** Shown in events. @default 'phases' */
  readonly name?: string;
}

interface Change extends PhaseChange {
  readonly trigger: ResultTrigger;
  /** By which it is told from all others, those of other phases included. */
  readonly name: string;
}

/** A phase as it is used. */
interface KnownPhase {
  readonly tools: readonly ToolSelector[];
  readonly to: readonly Change[];
}

/** Gives a run the tools of the phase it is in and takes away those of the one it left. The phase of a run is kept in the run's state. */
export class PhasesStrategy extends ToolInjectionStrategy {
  override readonly name: string;
  override readonly withheld: readonly ToolSelector[];
  override readonly awaited: readonly string[];
  private readonly phases: ReadonlyMap<string, KnownPhase>;
  private readonly start: string;
  private readonly key: string;
  /** Of which run the phase was noted. */
  private readonly runKey: string;

  constructor(options: PhasesOptions) {
    super();
    assertShapes(options);
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
   * Where the run waited and its state is lost, its records tell the phase again; or the tools it had, where an artifact had told. A run within a run begins
   * in the phase that the run around it has noted.
   */
  override begin(beginning: RunBeginning): ToolInjection {
    const { run, withheld, records } = beginning;
    const noted = this.phaseIn(run);
    const recorded = (): string => records.reduce((at, record) => this.next(at, { record, live: undefined }), noted);
    const isItsOwn = run.state.get(this.runKey) === run.runId;
    const phase = isItsOwn ? noted : this.phaseShown(recorded(), beginning);
    this.note(phase, run);
    return { add: withheld.named(this.toolsOf(phase)) };
  }

  /** In whatever phase the run is: another result of the step may lead on before this one is looked at. */
  override notice(result: Pick<InjectionResult, 'record' | 'live'>): readonly string[] | undefined {
    const triggers = [...this.phases.values()].flatMap(({ to }) => to.map(({ name, trigger }) => [name, trigger] as const));
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
    return { add, remove, cause: this.causeOf(left, [...toolset, ...withheld.all.map(({ spec }) => spec)]) };
  }

  private phaseIn({ state }: RunContext): string {
    const noted = state.get(this.key);
    return typeof noted === 'string' ? noted : this.start;
  }

  private note(phase: string, { state, runId }: RunContext): void {
    state.set(this.key, phase).set(this.runKey, runId);
  }

  /** Phases with the same tools are told apart by the records alone. */
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
    return this.phases.get(phase)?.to.find(({ trigger, name }) => isTriggered(trigger, result, name))?.phase ?? phase;
  }

  private toolsOf(phase: string): readonly ToolSelector[] {
    return this.phases.get(phase)?.tools ?? [];
  }

  /** Names only tools that the run has or may come to have. */
  private causeOf(phase: string, reachable: readonly ToolSpec[]): NonNullable<ToolInjection['cause']> {
    const names = [...this.phases.values()].flatMap(({ to }) =>
      to.filter((change) => change.phase === phase).flatMap(({ on }) => listed(on)),
    );
    const ids = new Set(reachable.filter((spec) => names.some((name) => isNamed(spec, name))).map(({ id }) => id));
    return { kind: 'phase', phase, leadingBack: [...ids].slice(0, MOST_NAMES) };
  }
}

const MOST_NAMES = 5;

/** A run goes through phases, each with its tools. Throws `ConfigurationError` for phases that do not exist or cannot be reached. */
export function phases<Phase extends string>(options: PhasesOptions<Phase>): PhasesStrategy {
  return new PhasesStrategy(options);
}

const OPTIONS: OptionValues<PhasesOptions> = { start: TEXT, states: OBJECT, name: TEXT };
const LIST: OptionValue = { wanted: 'a list of changes', accept: Array.isArray };
const STATE: OptionValues<PhaseState> = { tools: SELECTORS, to: LIST };
const CHANGE: OptionValues<PhaseChange> = { on: NAMES, when: FUNCTION, found: FUNCTION, phase: TEXT };

/** Of the options, of each phase and of each change. */
function assertShapes(options: PhasesOptions): void {
  const own = optionFindings(options, OPTIONS, 'phases', ['start', 'states']);
  if (own.length > 0) throw new ConfigurationError(own);
  const findings = Object.entries(options.states).flatMap(([phase, state]) => {
    const at = `phases "${options.name ?? 'phases'}", phase "${phase}"`;
    const ofState = optionFindings(state, STATE, at, ['tools']);
    if (ofState.length > 0) return ofState;
    return (state.to ?? []).flatMap((change) => optionFindings(change, CHANGE, at, ['phase']));
  });
  if (findings.length > 0) throw new ConfigurationError(findings);
}

function withTrigger(change: PhaseChange, name: string): Change {
  const { on, when, found } = change;
  return { ...change, name, trigger: { ...(on !== undefined && { after: listed(on) }), ...(when && { when }), ...(found && { found }) } };
}

function phaseFindings(at: string, start: string, all: ReadonlyMap<string, KnownPhase>): Finding[] {
  const names = [...all.keys()];
  const unknown = (phase: string): Finding[] => {
    if (all.has(phase)) return [];
    const remedy = `Did you mean ${closestTo(phase, names, 1).join('') || names.join(', ') || 'to declare it'}?`;
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
      remedy: 'Give `on`, `when` or `found`.',
    })),
    ...(all.has(start) ? names.filter((name) => !reached.has(name)) : []).map((name) => ({
      at,
      problem: `The phase "${name}" is never reached.`,
      remedy: 'Name it in the `to` of another phase, or remove it.',
    })),
  ];
}

/** The phases that some way leads to. A set is walked while it grows. */
function reachedFrom(start: string, all: ReadonlyMap<string, KnownPhase>): ReadonlySet<string> {
  const reached = new Set([start]);
  for (const phase of reached) for (const change of all.get(phase)?.to ?? []) reached.add(change.phase);
  return reached;
}
