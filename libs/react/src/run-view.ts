import type {
  ApprovalRequest,
  Citation,
  ClientCallRequest,
  Decision,
  DirectiveRequest,
  FinishReason,
  JsonObject,
  JsonValue,
  LoopEvent,
  LoopEventOf,
  PendingDecision,
  QuestionRequest,
  RehearsalReport,
  RehearsalRequest,
  RunFailure,
  ShownCall,
  ToolEffect,
  ToolInvocationRecord,
  ToolPresentation,
  Usage,
  WaitingFor,
} from '@toolloop/protocol';

/** A run as far as its events were read. */
export interface RunView {
  readonly runId?: string;
  readonly status: 'starting' | 'running' | 'waiting' | 'ended';
  readonly model?: string;
  readonly isRehearsal?: true;
  readonly step: number;
  readonly parts: readonly RunPart[];
  readonly tools: readonly BeltTool[];
  readonly subRuns: Readonly<Record<string, RunView>>;
  /**
   * The sources that the model names for its answer. They come from outside: show their text as
   * text, and their addresses as such.
   */
  readonly citations: readonly Citation[];
  readonly usage?: Usage;
  /** The use of each answer of the model, by its step. */
  readonly usageByStep: Readonly<Record<number, Usage>>;
  readonly rehearsal?: RehearsalRequest;
  readonly report?: RehearsalReport;
  readonly finishReason?: FinishReason;
  readonly finishDetail?: string;
  readonly waitingFor?: WaitingFor;
  readonly error?: RunFailure;
  readonly startedAt?: string;
  readonly lastAt?: string;
  readonly lastSequence: number;
}

/** A tool that the model has, or had. */
export interface BeltTool {
  readonly id: string;
  /**
   * The class of the entity, the strategy or the source that brought it; absent for the tools that
   * the run began with.
   */
  readonly provider?: string;
  readonly instanceId?: string;
  /** The sequence of the event that brought it. */
  readonly since: number;
  /** The call under which it appeared. */
  readonly broughtBy?: string;
  /** The reason for which it is gone. */
  readonly gone?: string;
}

/** A request of a call to people or a client. */
export type OpenRequest =
  | { readonly kind: 'approval'; readonly request: ApprovalRequest }
  | { readonly kind: 'question'; readonly request: QuestionRequest }
  | { readonly kind: 'client'; readonly request: ClientCallRequest };

/** The answer to such a request. */
export interface RequestAnswer {
  readonly decision: PendingDecision;
  readonly by: string;
  readonly reason?: string;
}

/** The outcome of a call; of one that is kept with its conversation less is known. */
export type CallRecord = ShownCall & Partial<ToolInvocationRecord>;

/** A call as a page shows it, from the model's first letter to its result. */
export interface CallPart {
  readonly kind: 'call';
  readonly step: number;
  readonly toolCallId: string;
  readonly tool: string;
  /** The arguments as far as the model has written them, before they are assembled. */
  readonly typed?: string;
  readonly args?: JsonObject;
  readonly presentation?: ToolPresentation;
  readonly effect?: ToolEffect;
  readonly decision?: Decision;
  readonly progress?: JsonValue;
  readonly request?: OpenRequest;
  readonly answer?: RequestAnswer;
  readonly record?: CallRecord;
  /**
   * Set where an answer that was taken back for this one had made the call: what it changed stands.
   */
  readonly stands?: true;
  readonly directive?: DirectiveRequest;
  /** Set where its result holds what may have been written by others. */
  readonly isOfOthers?: true;
  /** The tools that its result brought. */
  readonly brought: readonly string[];
  /** The run that it started, whose view is in `subRuns`. */
  readonly subRunId?: string;
  /** The sequence of its first event. */
  readonly since: number;
}

/** A part of an answer, in the order in which it came. */
export type RunPart =
  | CallPart
  | {
      readonly kind: 'text' | 'reasoning';
      readonly step: number;
      readonly text: string;
      readonly since: number;
    }
  | {
      readonly kind: 'warning';
      readonly code: string;
      readonly text: string;
      readonly since: number;
    };

export const EMPTY_RUN: RunView = {
  status: 'starting',
  step: 0,
  parts: [],
  tools: [],
  subRuns: {},
  citations: [],
  usageByStep: {},
  lastSequence: 0,
};

/**
 * Adds an event to the view of its run. An event of a type that it does not know changes nothing
 * but the sequence.
 *
 * @example
 * const view = events.reduce(withEvent, EMPTY_RUN);
 */
export function withEvent(view: RunView, event: LoopEvent): RunView {
  const { sequence: lastSequence, timestamp: lastAt, runId } = event;
  if (event.type === 'sub-run') return { ...withSubRun(view, event), lastSequence, lastAt };
  return { ...changed({ ...view, runId, status: 'running' }, event), lastSequence, lastAt };
}

function changed(view: RunView, event: LoopEvent): RunView {
  switch (event.type) {
    case 'run-start':
      return started(view, event);
    case 'step-start':
      return { ...view, step: event.step };
    case 'text-delta':
    case 'reasoning-delta':
      return withText(view, event);
    case 'citation':
      return { ...view, citations: [...view.citations, event.citation] };
    case 'usage':
      return {
        ...view,
        usage: event.total,
        usageByStep: { ...view.usageByStep, [event.step]: event.usage },
      };
    case 'warning':
      return {
        ...view,
        parts: [
          ...view.parts,
          { kind: 'warning', code: event.code, text: event.message, since: event.sequence },
        ],
      };
    case 'run-end':
      return ended(view, event);
    default:
      return ofTools(view, event);
  }
}

function started(view: RunView, event: LoopEventOf<'run-start'>): RunView {
  const known = new Set(view.tools.map(({ id }) => id));
  const added = event.tools
    .filter((id) => !known.has(id))
    .map((id) => ({ id, since: event.sequence }));
  return {
    ...view,
    tools: [...view.tools, ...added],
    startedAt: view.startedAt ?? event.timestamp,
    ...(event.model !== undefined && { model: event.model }),
    ...(event.isRehearsal && { isRehearsal: true }),
  };
}

function withText(
  view: RunView,
  { type, step, text, sequence }: LoopEventOf<'text-delta' | 'reasoning-delta'>,
): RunView {
  const kind = type === 'text-delta' ? 'text' : 'reasoning';
  const last = view.parts.at(-1);
  if (last?.kind !== kind || last.step !== step)
    return { ...view, parts: [...view.parts, { kind, step, text, since: sequence }] };
  return { ...view, parts: [...view.parts.slice(0, -1), { ...last, text: last.text + text }] };
}

function ended(view: RunView, event: LoopEventOf<'run-end'>): RunView {
  const { finishReason, finishDetail, waitingFor, error, usage, rehearsal } = event;
  const { waitingFor: _before, ...rest } = view;
  return {
    ...rest,
    status: finishReason === 'waiting' ? 'waiting' : 'ended',
    finishReason,
    usage,
    ...(waitingFor && { waitingFor }),
    ...(finishDetail !== undefined && { finishDetail }),
    ...(error && { error }),
    ...(rehearsal && { report: rehearsal }),
  };
}

function ofTools(view: RunView, event: LoopEvent): RunView {
  switch (event.type) {
    case 'tools-injected':
      return injected(view, event);
    case 'tools-removed':
      return { ...view, tools: gone(view.tools, event.tools, event.reason) };
    case 'source-changed': {
      const left = gone(view.tools, event.removed, event.source);
      return {
        ...view,
        tools: [
          ...left,
          ...event.added.map((id) => ({ id, provider: event.source, since: event.sequence })),
        ],
      };
    }
    default:
      return ofCalls(view, event);
  }
}

function injected(view: RunView, event: LoopEventOf<'tools-injected'>): RunView {
  const { provider, instanceId, tools, step, sequence: since } = event;
  const call = broughtBy(view.parts, step, instanceId);
  const origin = {
    provider,
    since,
    ...(instanceId !== undefined && { instanceId }),
    ...(call && { broughtBy: call.toolCallId }),
  };
  const back = new Set(tools);
  const belt = [
    ...view.tools.filter(({ id }) => !back.has(id)),
    ...tools.map((id) => ({ id, ...origin })),
  ];
  const shown = call ? withCall(view, { ...call, brought: [...call.brought, ...tools] }) : view;
  return { ...shown, tools: belt };
}

/**
 * The call of a step whose result names an instance; the last one with a result where none does.
 */
function broughtBy(
  parts: readonly RunPart[],
  step: number,
  instanceId: string | undefined,
): CallPart | undefined {
  const calls = parts.filter(
    (part): part is CallPart =>
      part.kind === 'call' && part.step === step && part.record?.status === 'succeeded',
  );
  const named = instanceId === undefined ? undefined : JSON.stringify(instanceId);
  return (
    calls.find(
      ({ record }) => named !== undefined && JSON.stringify(record?.result ?? null).includes(named),
    ) ?? calls.at(-1)
  );
}

function gone(
  tools: readonly BeltTool[],
  ids: readonly string[],
  reason: string,
): readonly BeltTool[] {
  const removed = new Set(ids);
  return tools.map((tool) => (removed.has(tool.id) ? { ...tool, gone: reason } : tool));
}

function ofCalls(view: RunView, event: LoopEvent): RunView {
  switch (event.type) {
    case 'tool-call-delta': {
      const call = callOf(view, event);
      return withCall(view, { ...call, typed: (call.typed ?? '') + event.argumentsDelta });
    }
    case 'tool-call': {
      const { args, presentation } = event;
      return withCall(view, {
        ...callOf(view, event),
        ...(args && { args }),
        ...(presentation && { presentation }),
      });
    }
    case 'tool-start':
      return withCall(view, {
        ...callOf(view, event),
        effect: event.effect,
        decision: event.decision,
      });
    case 'tool-progress':
      return withCall(view, { ...callOf(view, event), progress: event.value });
    case 'tool-result':
      return withRecord(view, event);
    case 'call-stands':
      return withCall(view, {
        ...callPart(event.call, { step: event.step, since: event.sequence }),
        stands: true,
      });
    default:
      return ofRequests(view, event);
  }
}

function withRecord(view: RunView, event: LoopEventOf<'tool-result'>): RunView {
  const { record, step, sequence } = event;
  const call = callOf(view, { toolCallId: record.toolCallId, tool: record.id, step, sequence });
  const { args = call.args, effect = call.effect, decision = call.decision, subRun } = record;
  return withCall(view, {
    ...call,
    record,
    ...(args && { args }),
    ...(effect && { effect }),
    ...(decision && { decision }),
    ...(subRun && { subRunId: subRun.runId }),
    ...(event.isOfOthers && { isOfOthers: true }),
  });
}

function ofRequests(view: RunView, event: LoopEvent): RunView {
  switch (event.type) {
    case 'approval-request':
      return asked(view, event.sequence, { kind: 'approval', request: event.approval });
    case 'pending-request':
      return event.kind === 'rehearsal'
        ? { ...view, rehearsal: event.request }
        : asked(view, event.sequence, toOpen(event));
    case 'approval-decision': {
      const { approvalId, ...said } = event.decision;
      return answered(view, approvalId, { ...said, by: event.decidedBy });
    }
    case 'pending-answer':
      return answered(view, event.pendingId, { decision: event.decision, by: event.answeredBy });
    case 'directive-request':
    case 'directive-update': {
      const call = callWith(view, ({ toolCallId }) => toolCallId === event.directive.toolCallId);
      return call ? withCall(view, { ...call, directive: event.directive }) : view;
    }
    default:
      return view;
  }
}

function asked(view: RunView, sequence: number, open: OpenRequest): RunView {
  const { request } = open;
  const { answer: _before, ...call } = callOf(view, { ...request, sequence });
  const { presentation } = request;
  return withCall(view, {
    ...call,
    request: open,
    ...(presentation && { presentation }),
    ...('args' in request && { args: request.args }),
  });
}

function toOpen(
  event: Exclude<LoopEventOf<'pending-request'>, { readonly kind: 'rehearsal' }>,
): OpenRequest {
  return event.kind === 'question'
    ? { kind: event.kind, request: event.request }
    : { kind: event.kind, request: event.request };
}

/** The id under which a request is answered. */
export function requestIdOf(open: OpenRequest): string {
  if (open.kind === 'approval') return open.request.approvalId;
  return open.kind === 'question' ? open.request.questionId : open.request.pendingId;
}

function answered(view: RunView, id: string, answer: RequestAnswer): RunView {
  const call = callWith(
    view,
    ({ request }) => request !== undefined && requestIdOf(request) === id,
  );
  if (call) return withCall(view, { ...call, answer });
  const { rehearsal, ...rest } = view;
  return rehearsal?.rehearsalId === id ? rest : view;
}

function withSubRun(view: RunView, { path, event }: LoopEventOf<'sub-run'>): RunView {
  const runId = path.at(-1) ?? event.runId;
  const inner = withEvent(view.subRuns[runId] ?? EMPTY_RUN, event);
  const subRuns = { ...view.subRuns, [runId]: inner };
  const within = event.type === 'run-start' ? event.within : undefined;
  const call = within && callWith(view, ({ toolCallId }) => toolCallId === within.toolCallId);
  return { ...(call ? withCall(view, { ...call, subRunId: runId }) : view), subRuns };
}

/** A call that is over, as a page shows it. One that waits has no outcome yet. */
export function callPart(call: ShownCall, place: Pick<CallPart, 'step' | 'since'>): CallPart {
  const { toolCallId, id: tool, args, effect, decision, presentation, subRunId } = call;
  return {
    kind: 'call',
    ...place,
    toolCallId,
    tool,
    brought: [],
    ...(call.status !== 'waiting' && { record: call }),
    ...(args && { args }),
    ...(effect && { effect }),
    ...(decision && { decision }),
    ...(presentation && { presentation }),
    ...(subRunId !== undefined && { subRunId }),
  };
}

interface CallPlace {
  readonly toolCallId: string;
  readonly tool: string;
  readonly step: number;
  readonly sequence: number;
}

/**
 * Calls whose ids two runs use are told apart by their tool: a sub-run's call that waits is an
 * event of the root.
 */
function callOf(view: RunView, { toolCallId, tool, step, sequence: since }: CallPlace): CallPart {
  return (
    callWith(view, (call) => call.toolCallId === toolCallId && call.tool === tool) ?? {
      kind: 'call',
      step,
      toolCallId,
      tool,
      brought: [],
      since,
    }
  );
}

function callWith(view: RunView, fits: (call: CallPart) => boolean): CallPart | undefined {
  return view.parts.findLast((part): part is CallPart => part.kind === 'call' && fits(part));
}

function withCall(view: RunView, call: CallPart): RunView {
  const index = view.parts.findLastIndex(
    (part) =>
      part.kind === 'call' && part.toolCallId === call.toolCallId && part.tool === call.tool,
  );
  return { ...view, parts: index < 0 ? [...view.parts, call] : view.parts.with(index, call) };
}
