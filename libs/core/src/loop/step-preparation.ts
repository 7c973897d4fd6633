import {
  InvalidRequestError,
  type Message,
  type ModelRequest,
  type ToolChoice,
  type ToolSpec,
} from '@toolloop/protocol';
import { untilAborted } from '../contracts/interruption.js';
import { isGlob } from '../catalog/glob.js';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import { isByClass, isToolPredicate, selects } from '../catalog/tool-selection.js';
import type { Toolset } from '../catalog/toolset.js';
import { STEP_CHANGE, type StepChange } from '../contracts/prepare-step.js';
import type { ToolSelector } from '../contracts/tool-selector.js';
import type { Tool } from '../contracts/tool.js';
import { Logger } from '../findings/logger.js';
import { refusedIn, withoutMedia } from '../models/left-out-media.js';
import { checkMessages } from '../models/message-check.js';
import { fitted } from '../models/request-fitting.js';
import { CLIENT_SOURCE } from '../plugins/client-tools/declared-tools.js';
import { sentMessages } from '../plugins/history/history-step.js';
import type { LiveRun } from '../run/live-run.js';
import { LoopSettings } from '../run/loop-settings.js';
import { RunFault } from '../run/run-fault.js';
import type { LoopState, PreparedStep } from './loop-state.js';

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
  async prepare(state: LoopState, live: LiveRun): Promise<PreparedStep> {
    const sent = sentMessages(state.messages, state.cut);
    const { prepareStep } = live.plan;
    const change = prepareStep ? await askForChange(prepareStep, state, sent, live) : {};
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

type Preparing = NonNullable<LiveRun['plan']['prepareStep']>;

async function askForChange(
  prepareStep: Preparing,
  { step, toolset, usage, records }: LoopState,
  messages: readonly Message[],
  live: LiveRun,
): Promise<StepChange> {
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
