import {
  InvalidRequestError,
  type Message,
  type ModelRequest,
  type ToolChoice,
  type ToolSpec,
} from '@toolloop/protocol';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import { isByClass, isGlob, isToolPredicate, selects } from '../catalog/tool-selection.js';
import type { Toolset } from '../catalog/toolset.js';
import type { RemovalCause } from '../contracts/injection.js';
import {
  type FinishedStep,
  STEP_CHANGE,
  type StepChange,
  type StopCondition,
  type ToolSelector,
} from '../contracts/loop-request.js';
import type { Tool } from '../contracts/tool.js';
import { linkSignal, untilAborted } from '../execution/call-failure.js';
import { callable } from '../execution/resolve-tool.js';
import { Logger } from '../findings/logger.js';
import { applyInjection } from '../injection/apply-injection.js';
import { CLIENT_SOURCE } from '../injection/declared-tools.js';
import { toolNotes } from '../injection/tool-notes.js';
import { refusedIn, withoutMedia } from '../models/left-out-media.js';
import { fitted } from '../models/request-fitting.js';
import { isPermitted } from '../policy/policy-engine.js';
import { sentMessages } from './history-step.js';
import type { LiveRun } from './live-run.js';
import { LoopSettings } from './loop-settings.js';
import { type Finish, type LoopState, type PreparedStep, RunFault } from './loop-state.js';
import { checkMessages } from '../models/message-check.js';
import type { Authority } from './run-accounts.js';

/** Makes the request of a step from the run's state and from what `prepareStep` changes in it. */
export class StepPreparation {
  private readonly logger = new Logger('ToolLoop');
  /** The loops of which the log has said that they offer many tools. */
  private readonly crowded = new Set<string | undefined>();

  constructor(
    private readonly settings: LoopSettings,
    private readonly catalog: ToolCatalog,
  ) {}

  /**
   * Throws what `prepareStep` throws, a `RunFault` for a change that cannot be made, and the
   * interruption of a run that ends meanwhile.
   */
  prepare(state: LoopState, live: LiveRun): PreparedStep | Promise<PreparedStep> {
    const sent = sentMessages(state.messages, state.cut);
    const changing = changeOf(state, sent, live);
    return changing
      ? changing.then((change) => this.checked(state, sent, change, live))
      : this.checked(state, sent, {}, live);
  }

  private checked(
    state: LoopState,
    sent: readonly Message[],
    change: StepChange,
    live: LiveRun,
  ): PreparedStep {
    try {
      return this.changed(state, sent, change, live);
    } catch (error) {
      throw error instanceof InvalidRequestError ? faultOf(error) : error;
    }
  }

  private changed(
    state: LoopState,
    sent: readonly Message[],
    change: StepChange,
    live: LiveRun,
  ): PreparedStep {
    const { messages = sent } = change;
    if (messages !== sent) {
      checkSent(messages, live);
      live.flow.show(messages);
    }
    const toolset = change.tools ? this.narrowed(state.toolset, change.tools, live) : state.toolset;
    live.flow.offer(toolset);
    this.warnOfMany(toolset, live);
    const toolChoice = toolChoiceOf(change, toolset, state.step, live);
    const model =
      change.model === undefined ? live.plan.model : this.settings.modelFor(change.model);
    const left = { refused: refusedIn(state.messages), most: live.plan.execution.limits.sentMedia };
    const request = {
      ...requestOf(change, live),
      messages: withoutMedia(messages, left),
      tools: toolset.specs,
      ...(toolChoice !== undefined && { toolChoice }),
    };
    return { step: state.step, model, toolset, request: fitted(request, model) };
  }

  private warnOfMany({ specs }: Toolset, { plan: { loop, execution } }: LiveRun): void {
    const { offeredTools } = execution.limits;
    if (specs.length <= offeredTools || this.crowded.has(loop)) return;
    this.crowded.add(loop);
    const name = loop === undefined ? 'A run' : `A run of the loop "${loop}"`;
    this.logger.warn(
      `${name} offers its model ${specs.length} tools, more than \`limits.offeredTools\` (${offeredTools}): it chooses worse and costs more. Select fewer (\`tools\`, \`exclude\`), let it search (\`toolSearch\`), or raise the limit.`,
    );
  }

  private narrowed(
    toolset: Toolset,
    selectors: readonly ToolSelector[],
    { narrowing }: LiveRun,
  ): Toolset {
    const methods = this.catalog.entities.definitions.flatMap(({ tools }) =>
      tools.map(({ template }) => template.spec),
    );
    return narrowing.narrow(toolset, this.choiceOf(selectors, toolset), methods);
  }

  private choiceOf(
    selectors: readonly ToolSelector[],
    toolset: Toolset,
  ): (spec: ToolSpec) => boolean {
    const choices = selectors.map((selector) => this.oneChoiceOf(selector, toolset));
    return (spec) => choices.some((isChosen) => isChosen(spec));
  }

  /**
   * A selector that names nothing is a mistake, as in a request; the tools of an entity come and
   * go, so theirs may be missing.
   */
  private oneChoiceOf(selector: ToolSelector, toolset: Toolset): (spec: ToolSpec) => boolean {
    if (typeof selector === 'string') {
      if (!toolset.findCallable(selector) && !this.catalog.isOfInstance(selector))
        this.catalog.build({ tools: [selector] });
      const named = isGlob(selector)
        ? undefined
        : this.catalog.registry.entryOf(selector)?.tool.spec;
      return (spec) =>
        spec.id === selector ||
        spec.declaredId === named?.declaredId ||
        selects(selector, { tool: { spec } });
    }
    if (isToolPredicate(selector)) return selector;
    const ofEntity = this.catalog.entities.definitions.filter((definition) =>
      isByClass(selector, definition),
    );
    const ids = new Set([
      ...this.catalog.build({ tools: [selector] }).map(({ spec }) => spec.declaredId),
      ...ofEntity.flatMap(({ tools }) => tools.map(({ template }) => template.spec.declaredId)),
    ]);
    return ({ declaredId }) => ids.has(declaredId);
  }
}

/** Returns the part of a request beside its messages and its tools. */
function requestOf(change: StepChange, { plan, start }: LiveRun): Partial<ModelRequest> {
  const { instructions = start.instructions, modelOptions: options = plan.options.modelOptions } =
    change;
  return {
    ...(instructions !== undefined && { instructions }),
    ...(plan.answer && { answerFormat: plan.answer.format }),
    ...(options && { options }),
  };
}

function changeOf(
  state: LoopState,
  messages: readonly Message[],
  live: LiveRun,
): Promise<StepChange> | undefined {
  const { prepareStep } = live.plan;
  return prepareStep && changeBy(prepareStep, state, messages, live);
}

type Preparing = NonNullable<LiveRun['plan']['prepareStep']>;

async function changeBy(
  prepareStep: Preparing,
  state: LoopState,
  messages: readonly Message[],
  live: LiveRun,
): Promise<StepChange> {
  const { step, toolset, usage, records } = state;
  const changing = prepareStep({
    step,
    messages,
    tools: toolset.specs,
    usage,
    toolCalls: records,
    signal: live.signal,
  });
  const change = (await untilAborted(Promise.resolve(changing), live.signal)) ?? {};
  const [problem] = changeProblems(change);
  if (problem !== undefined) throw new RunFault('invalid_step', problem);
  return change;
}

/**
 * Returns the problems of a change that would be ignored silently: a step that differs from what
 * was meant is not taken.
 */
function changeProblems(change: unknown): readonly string[] {
  if (typeof change !== 'object' || change === null || Array.isArray(change))
    return ['prepareStep returned no object. Return what is different in the step, or nothing.'];
  const findings = STEP_CHANGE.findings(change, AT);
  return findings.map(
    ({ problem, remedy }) =>
      `What prepareStep returned changes nothing or cannot be. ${problem} ${remedy}`,
  );
}

const AT = 'prepareStep';

/**
 * The first sentence says what is wrong; what there would be instead is for the log and the
 * rejection.
 */
function faultOf(cause: InvalidRequestError): RunFault {
  const [problem = ''] = cause.message.split(/\.(?: |$)/);
  return new RunFault('invalid_step', `The step cannot be taken. ${problem}.`, { cause });
}

/**
 * The rules for messages from outside, but for their sizes and what they take away: these come from
 * the application.
 */
function checkSent(messages: readonly Message[], { plan: { execution } }: LiveRun): void {
  const structure = messages.map((message) =>
    message.role === 'tool' ? { ...message, content: '' } : message,
  );
  const checked = checkMessages(structure, {
    ...execution.limits,
    toolCallIdLength: Infinity,
    attachmentBytes: Infinity,
  });
  if (checked.some(({ role }) => role === 'user')) return;
  throw new InvalidRequestError('invalid_messages', 'prepareStep returned no user message.');
}

/**
 * A forced tool would be forced again after its own result: the request's choice holds for the
 * first step only, unless it is kept.
 */
function toolChoiceOf(
  change: StepChange,
  toolset: Toolset,
  step: number,
  live: LiveRun,
): ToolChoice | undefined {
  const { toolChoice = requestedChoice(toolset, step, live) } = change;
  if (toolChoice === 'required' && toolset.shown.every(isOfClient)) return undefined;
  if (typeof toolChoice !== 'object') return toolChoice;
  const forced = toolset.find(toolChoice.tool);
  if (forced && !isOfClient(forced)) return toolChoice;
  if (forced)
    throw new InvalidRequestError(
      'unknown_tool',
      `toolChoice forces "${toolChoice.tool}", which the client declares: such a tool is never forced.`,
    );
  throw new InvalidRequestError(
    'unknown_tool',
    `toolChoice forces "${toolChoice.tool}", which is not among the tools of step ${step}: ${toolset.specs.map(({ id }) => id).join(', ') || 'none'}.`,
  );
}

/** Tells whether the client of the run has declared a tool. */
function isOfClient({ origin }: Tool): boolean {
  return !origin.trusted && origin.source === CLIENT_SOURCE;
}

/** A tool that has gone since it was first forced is forced no more. */
function requestedChoice(
  toolset: Toolset,
  step: number,
  { plan: { options } }: LiveRun,
): ToolChoice | undefined {
  const { toolChoice, keepToolChoice } = options;
  if (step === 1) return toolChoice;
  const isThere = typeof toolChoice !== 'object' || toolset.find(toolChoice.tool) !== undefined;
  return keepToolChoice && isThere ? toolChoice : undefined;
}

/**
 * The state with the tools that the actor may use by now. Where the roles or the policy have
 * changed since the tools were listed, denied ones go and the list is made anew; those that went
 * and are permitted again come back. Tells what came and went.
 */
export function withAuthorityOfNow(
  before: LoopState,
  live: LiveRun,
): LoopState | Promise<LoopState> {
  const authority = live.roles.now();
  const change = live.roles.changeIn(authority);
  return change || before.toolset.removedWithRole.length > 0
    ? underAuthority(before, live, authority, change)
    : before;
}

async function underAuthority(
  before: LoopState,
  live: LiveRun,
  authority: Authority,
  change: ReturnType<LiveRun['roles']['changeIn']>,
): Promise<LoopState> {
  const state =
    change === 'policy'
      ? { ...before, toolset: before.toolset.relabelled(live.plan.label) }
      : before;
  const step = state.step + 1;
  const name = change ?? 'roles';
  const denied = change ? state.toolset.tools.filter((tool) => isDenied(tool, authority)) : [];
  const { toolset, removed } = state.toolset.remove(denied, suspension);
  if (removed.length > 0)
    await live.emit({ type: 'tools-removed', step, tools: removed, reason: name });
  const listed = change ? listedAnew({ ...state, toolset }, authority, live) : [];
  const back = toolset.removedWithRole.filter(
    (tool) => isResumable(tool, live) && !isDenied(tool, authority),
  );
  if (listed.length + back.length === 0) return { ...state, toolset };
  const own = await listable([...listed, ...back.filter(({ entity }) => !entity)], live);
  // Each is tried once: its removal says how to have it all the same.
  const { toolset: next, added } = toolset.withoutSuspended(back).inject(own);
  if (added.length > 0)
    await live.emit({
      type: 'tools-injected',
      step,
      provider: name,
      tools: added.map(({ id }) => id),
    });
  const add = back.filter(({ entity }) => entity);
  // Under the rules by which they once came: there may be newer ones in their place.
  const applied = await applyInjection(next, { add }, live.injectionRules(authority), {
    step,
    strategy: { name },
  });
  for (const event of applied.events) await live.emit(event);
  return { ...state, toolset: applied.toolset };
}

/**
 * The state with the tools of sources as they are by now: those that were withdrawn are gone, and
 * those that joined and that the run may have are behind all others. Tells of both, for each
 * source.
 */
export async function withSourcesOfNow(
  state: LoopState,
  live: LiveRun,
  catalog: ToolCatalog,
): Promise<LoopState> {
  const { listedAt } = live;
  if (listedAt === catalog.version) return state;
  live.listedAt = catalog.version;
  const gone = state.toolset.tools.filter((tool) => catalog.retired.has(tool.input));
  const { toolset } = state.toolset.remove(gone, { kind: 'source' });
  const { shown, reserve } = listedNow(state, live, catalog);
  live.reserve = reserve;
  const joined = shown.filter(
    (tool) => catalog.hasJoinedSince(tool, listedAt) && isAddable(tool, toolset),
  );
  const fresh = await listable(joined, live);
  for (const source of new Set([...gone, ...fresh].map(({ origin }) => origin.source)))
    await live.emit({
      type: 'source-changed',
      step: state.step + 1,
      source,
      added: idsOf(source, fresh),
      removed: idsOf(source, gone),
    });
  // A search is bound to what it can find: it keeps its place and gets the new instance.
  const searches = shown.filter(
    ({ origin, surface, spec }) =>
      origin.source === 'toolloop' && !surface && toolset.find(spec.id),
  );
  return { ...state, toolset: toolset.add([...searches, ...fresh]).toolset };
}

/**
 * The tools with which the run would begin by now, and those that strategies withhold. A sub-run
 * has what the run around it had when it began.
 */
function listedNow(
  { records }: LoopState,
  live: LiveRun,
  catalog: ToolCatalog,
): { shown: readonly Tool[]; reserve: LiveRun['reserve'] } {
  const begun = live.plan.relist?.(live.roles.now(), records);
  if (begun) return { shown: begun.toolset.shown, reserve: begun.injection.reserve };
  return { shown: [], reserve: live.reserve.within((tool) => !catalog.retired.has(tool.input)) };
}

function idsOf(source: string, tools: readonly Tool[]): string[] {
  return tools.filter(({ origin }) => origin.source === source).map(({ spec }) => spec.id);
}

/**
 * Tells whether a tool that is listed anew may join: no strategy took it away, and it is not there.
 */
function isAddable({ spec }: Tool, toolset: Toolset): boolean {
  const cause = toolset.removalOf(spec.id);
  if (toolset.find(spec.id)) return false;
  return cause ? cause.kind === 'source' : !toolset.withholds(spec);
}

/** The state with notes about the tools that came and went since the transcript's last one. */
export function withToolNotes(state: LoopState): LoopState {
  const notes = toolNotes(sentMessages(state.messages, state.cut), state.toolset);
  return notes.length === 0 ? state : { ...state, messages: [...state.messages, ...notes] };
}

/**
 * The tools with which the run would begin by now, but for those that strategies took away since.
 */
function listedAnew(
  { toolset, records }: LoopState,
  authority: Authority,
  live: LiveRun,
): readonly Tool[] {
  const begun = live.plan.relist?.(authority, records);
  if (!begun) return [];
  live.reserve = begun.injection.reserve;
  return begun.toolset.shown.filter(({ spec }) => {
    const cause = toolset.removalOf(spec.id);
    return cause ? cause.kind === 'role' : !toolset.withholds(spec);
  });
}

/**
 * Tools of entities, and of a sub-run those that it began with, which are not listed anew. What a
 * strategy keeps back is its own to give.
 */
function isResumable({ surface, entity, spec }: Tool, { plan, reserve }: LiveRun): boolean {
  if (surface) return false;
  if (entity) return true;
  return (
    !plan.relist &&
    !plan.injection.strategies.some((strategy) =>
      reserve.of(strategy).all.some((kept) => kept.spec.id === spec.id),
    )
  );
}

async function listable(tools: readonly Tool[], live: LiveRun): Promise<readonly Tool[]> {
  return live.plan.strictListing
    ? callable(tools, { ...live.plan.execution, signal: live.signal })
    : tools;
}

function suspension({ entity, givenBy }: Tool): RemovalCause {
  return {
    kind: 'role',
    ...(entity && { perInstance: true, ...(givenBy !== undefined && { givenBy }) }),
  };
}

/** A dispatcher is never denied itself, only what is called over it. */
function isDenied(tool: Tool, authority: Authority): boolean {
  return tool.surface?.kind !== 'dispatcher' && !isPermitted(tool, authority);
}

/**
 * Returns the end of a run by the stop condition that holds for the last step.
 *
 * @throws RunFault that names a condition which failed
 */
export async function stopFor(
  { step, text, records, usage }: LoopState,
  live: LiveRun,
): Promise<Finish | undefined> {
  const { stopWhen, execution } = live.plan;
  if (stopWhen.length === 0 || step === 0) return undefined;
  const finished = {
    step,
    text,
    usage,
    toolCalls: records.filter((record) => record.step === step),
    run: execution.run,
  };
  for (const [index, condition] of stopWhen.entries()) {
    const name = condition.name === '' ? `stopWhen[${index}]` : condition.name;
    if (await holds(condition, finished, name, live))
      return { reason: 'stop', detail: `The stop condition ${name} held after step ${step}.` };
  }
  return undefined;
}

async function holds(
  condition: StopCondition,
  step: FinishedStep,
  name: string,
  live: LiveRun,
): Promise<boolean> {
  const { toolCallMs: ms } = live.plan.execution.limits;
  const link = linkSignal(live.signal, {
    ms,
    message: `The stop condition ${name} did not answer within ${ms} ms.`,
  });
  try {
    // so that what it throws at once is a rejection like any
    const asking = Promise.resolve(step).then(condition);
    const answer = await untilAborted<unknown>(asking, link.signal);
    if (typeof answer !== 'boolean')
      throw new TypeError(`It answered with ${typeof answer}, not with true or false.`);
    return answer;
  } catch (error) {
    if (live.signal.aborted) throw error;
    throw new RunFault('stop_condition', `The stop condition ${name} failed.`, { cause: error });
  } finally {
    link.release();
  }
}
