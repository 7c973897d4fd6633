import {
  type ApprovalGroup,
  type ApprovalRequest,
  type Decision,
  DIRECTIVE_STATUSES,
  type DirectiveStatus,
  type Endorsable,
  type PreviewChange,
  type QuestionRequest,
  type RehearsalChoices,
  type ClientCallRequest,
  type RehearsalRequest,
  type ToolPreview,
  type WaitingCall,
} from '../decision.js';
import type { Finding } from '../errors.js';
import type { JSONSchema7 } from 'json-schema';
import type { LoopEvent } from '../loop-event.js';
import type { Usage } from '../message.js';
import type {
  FinishReason,
  LoopResult,
  RehearsedRun,
  ShownCall,
  ToolFailure,
  ToolInvocationRecord,
} from '../loop-result.js';
import type { ToolPresentation } from '../tool-definition.js';
import {
  AMOUNT,
  ANY,
  declared,
  type Form,
  list,
  type MembersOf,
  object,
  OPEN,
  optional,
  ref,
  TEXT,
  TIME,
  typed,
  type ValueOf,
  WHOLE,
  words,
  YES_OR_NO,
} from './form.js';

const EFFECT = words('read_only', 'state_change', 'external_side_effect');
const WAITING_FOR = words('approval', 'question', 'client', 'rehearsal');
const TEXTS = list(TEXT);
const SET = typed<true>(YES_OR_NO);
const PRESENTATION = typed<ToolPresentation>(OPEN);
const FINISH_REASON = typed<FinishReason>(TEXT);

const CHANGE = declared<PreviewChange>({
  field: TEXT,
  before: optional(ANY),
  after: optional(ANY),
});
const PREVIEW = declared<ToolPreview>({ sentence: TEXT, changes: optional(list(CHANGE)) });

const WAITING_CALL: MembersOf<WaitingCall> = {
  runId: TEXT,
  path: optional(TEXTS),
  step: WHOLE,
  toolCallId: TEXT,
  tool: TEXT,
  declaredId: TEXT,
  instanceId: optional(TEXT),
  presentation: optional(PRESENTATION),
  expiresAt: TIME,
};

const TRUST = { arguments: optional(TEXTS), sources: optional(TEXTS) };

const APPROVAL: MembersOf<ApprovalRequest> = {
  ...WAITING_CALL,
  approvalId: TEXT,
  args: OPEN,
  reason: TEXT,
  preview: optional(PREVIEW),
  changed: optional(list(CHANGE)),
  mayEdit: YES_OR_NO,
  mayRemember: YES_OR_NO,
  isTainted: optional(YES_OR_NO),
  mayEndorse: optional(declared<Endorsable>({ ...TRUST, always: optional(TEXTS) })),
  group: optional(TEXT),
};

const GIVEN_ANSWER = object({
  decision: words('approve', 'deny', 'answer', 'withdraw'),
  reason: optional(TEXT),
  /** The id of the person who answered. */
  decidedBy: TEXT,
  /** ISO 8601, UTC. */
  decidedAt: TIME,
  /** The things that the person trusts for the rest of the run. */
  endorse: optional(object(TRUST)),
});

const FAILURE = declared<ToolFailure, 'code' | 'safeMessage'>({
  code: TEXT,
  safeMessage: TEXT,
});

const ERROR = object({
  code: typed<string>({
    ...TEXT,
    description: 'The reason for programs, such as unknown_run.',
  }),
  message: TEXT,
  /** The single mistakes, where there are several. */
  details: optional(TEXTS),
  runId: optional(TEXT),
  correlationId: optional<string>({
    ...TEXT,
    description: 'The id under which the log of the server has the cause.',
  }),
});

const RUN = object({
  runId: TEXT,
  status: words('queued', 'running', 'waiting', 'ended'),
  /** Set where any process continues it, and its events are kept. */
  durable: YES_OR_NO,
  /** Absent for a run that has not ended and does not wait. */
  finishReason: optional(FINISH_REASON),
  waitingFor: optional(WAITING_FOR),
  /** The sequence of its last event that was kept; 0 for none. */
  lastSequence: WHOLE,
  /** The run from which it was forked, and the last step that both share. */
  forkOf: optional(object({ runId: TEXT, step: WHOLE })),
  /** The id of its actor, in a list of the runs of a tenant. */
  actorId: optional(TEXT),
  /** ISO 8601, UTC. */
  createdAt: TIME,
  /** ISO 8601, UTC. */
  updatedAt: TIME,
});

const LISTED_TOOL = object({
  id: TEXT,
  description: TEXT,
  effect: EFFECT,
  inputSchema: typed<JSONSchema7>(OPEN),
  presentation: optional(PRESENTATION),
});

const MADE_CALL = object({
  runId: TEXT,
  record: ref<ToolInvocationRecord>('ToolCall'),
  /** The result as people may see it. Absent for a call that did not succeed. */
  ui: optional(ANY),
  /** The ids of the tools that the result brought. */
  injectedTools: TEXTS,
  /** Set where the call waits for a person: its run is resumed once that is answered. */
  waiting: optional(object({ runId: TEXT, for: WAITING_FOR })),
});

const ANSWERED = object({ id: TEXT, kind: WAITING_FOR, answer: optional(GIVEN_ANSWER) });

const UNDOING = object({
  runId: TEXT,
  calls: list(
    object({
      toolCallId: TEXT,
      declaredId: TEXT,
      directiveId: optional(TEXT),
      status: words('undone', 'no_effect', 'under_way', 'failed', 'not_possible', 'not_reached'),
      reason: optional(TEXT),
    }),
  ),
});

const CONVERSATION = object({
  conversationId: TEXT,
  messages: WHOLE,
  /** ISO 8601, UTC. */
  updatedAt: TIME,
});

const ENTRY = object({
  /** The position among the stored messages, from 0. */
  position: WHOLE,
  role: words('user', 'assistant', 'tool'),
  /** Empty for the outcome of a call. */
  text: TEXT,
  /** The client's own id of a message of the user, if it gave one. */
  messageId: optional(TEXT),
  /** The call whose outcome it is, as people see it. */
  call: optional(ref<ShownCall>('ToolCall')),
});

const CONVERSATION_PAGE = object({
  conversationId: TEXT,
  entries: list(ENTRY),
  /** The number of the first message of the next page. Absent on the last one. */
  next: optional(WHOLE),
});

const DIRECTIVE = object({
  directiveId: TEXT,
  type: TEXT,
  subject: TEXT,
  /** The present or last task. */
  task: words('perform', 'compensate'),
  status: words<DirectiveStatus>(...DIRECTIVE_STATUSES),
  declaredId: TEXT,
  args: OPEN,
  preview: optional(PREVIEW),
  /** The actor who asked. */
  requestedBy: TEXT,
  runId: TEXT,
  toolCallId: TEXT,
  correlationId: TEXT,
  attempts: WHOLE,
  result: optional(ANY),
  failure: optional(typed<Pick<ToolFailure, 'code' | 'safeMessage' | 'correlationId'>>(FAILURE)),
  /** ISO 8601, UTC; so are the others. */
  createdAt: TIME,
  updatedAt: TIME,
  /** The time to perform a pending one. */
  dueAt: optional(TIME),
});

const USAGE_SUMS = object({
  tenant: optional(TEXT),
  day: optional(TEXT),
  actor: optional(TEXT),
  tool: optional(TEXT),
  model: optional(TEXT),
  calls: WHOLE,
  answers: WHOLE,
  /** Answers whose cost is not known. */
  unpricedAnswers: WHOLE,
  inputTokens: WHOLE,
  outputTokens: WHOLE,
  /** The cost in USD as far as it is known. */
  usd: AMOUNT,
});

const DECISION = ref<Decision>('Decision');

const EXPLAINED_TOOL = object({
  declaredId: TEXT,
  isListed: YES_OR_NO,
  /** `asks` if a call waits for a person's approval. */
  isCallable: typed<boolean | 'asks'>({ anyOf: [YES_OR_NO, words('asks')] }),
  /** In the order in which they are asked. */
  reasons: list(object({ by: TEXT, holds: YES_OR_NO, reason: TEXT, decision: optional(DECISION) })),
});

const EXPLAINED_CALL = object({
  runId: TEXT,
  toolCallId: TEXT,
  declaredId: optional(TEXT),
  events: list(
    object({
      /** ISO 8601, UTC. */
      at: TIME,
      kind: TEXT,
      decision: optional(DECISION),
      reason: optional(TEXT),
      decidedBy: optional(TEXT),
      status: optional(TEXT),
      code: optional(TEXT),
    }),
  ),
});

const POLICY_VERSION = object({
  /** Absent for those of all tenants. */
  tenant: optional(TEXT),
  number: WHOLE,
  /** Absent for those that the application was started with. */
  policies: optional(list(typed<object>(OPEN))),
  author: TEXT,
  reason: TEXT,
  rollbackOf: optional(WHOLE),
  /** Values that are trusted in all runs of the tenant. */
  endorsed: optional(list(typed<object>(OPEN))),
  /** ISO 8601, UTC. */
  at: TIME,
});

const CHANGED_POLICY = object({
  /** The JSON pointer of the field. */
  at: TEXT,
  /** Absent where it came. */
  before: optional(ANY),
  /** Absent where it went. */
  after: optional(ANY),
});

const POLICY_REPLAY = object({
  version: optional(WHOLE),
  runs: list(typed<ReplayedRun>(OPEN)),
});

const POLICY_STOP = object({
  /** Absent where it is on in all tenants. */
  tenant: optional(TEXT),
  stopId: TEXT,
  tool: optional(TEXT),
  source: optional(TEXT),
  /** The id of the person who stopped it. */
  author: TEXT,
  reason: TEXT,
  /** ISO 8601, UTC. */
  at: TIME,
});

const SOURCED_TOOL = object({
  declaredId: TEXT,
  effect: EFFECT,
  /** The SHA-256 of its declaration. */
  schemaHash: TEXT,
  /** Set where the application pins that declaration. */
  pinned: optional(SET),
});

const SOURCE = object({
  source: TEXT,
  prefix: optional(TEXT),
  trusted: YES_OR_NO,
  /**
   * `starting`: it has not answered yet. `unreachable`: it did not answer when it was last asked;
   * the tools of its last answer stay.
   */
  state: words('starting', 'ready', 'unreachable'),
  /** ISO 8601, UTC. */
  since: TIME,
  tools: list(SOURCED_TOOL),
  /**
   * The tools that are kept out, with the hash of the declaration that a policy would pin to let
   * one in.
   */
  quarantined: list(object({ id: TEXT, reason: TEXT, schemaHash: optional(TEXT) })),
  /** The number of tools beyond the limits, which were not looked at. */
  leftOut: WHOLE,
  lastError: optional(TEXT),
});

const SOURCE_REPORT = object({
  sources: list(ref<ListedSource>('Source')),
  findings: list(declared<Finding>({ at: TEXT, problem: TEXT, remedy: TEXT })),
});

const VIEWED_ACTOR = object({
  actor: object({ id: TEXT, name: optional(TEXT), roles: TEXTS }),
  /** The actions of operators that the person may take. */
  may: TEXTS,
  tools: list(ref<ViewedTool>('ExplainedTool')),
  /** The latest runs of the person. */
  runs: list(ref<Run>('Run')),
  /** The requests that the person may see, with whether they may answer. */
  waiting: list(ref<WaitingRequest>('Waiting')),
});

const AUDIT_HEAD = object({
  tenant: TEXT,
  sequence: WHOLE,
  hash: TEXT,
  version: typed<1>(WHOLE),
  at: TIME,
  keyId: TEXT,
  signature: TEXT,
});

const HEALTH = object({ status: words('ok') });

const MODEL = object({
  id: TEXT,
  object: words('model'),
  created: WHOLE,
  owned_by: words('toolloop'),
});

/** The answers of routes, by their names in a document. */
export const ANSWERS = {
  Error: ERROR,
  OpenAiError: object({ error: object({ message: TEXT, type: TEXT, code: TEXT }) }),
  LoopEvent: typed<LoopEvent>(
    declared<Pick<LoopEvent, 'type' | 'runId' | 'sequence' | 'timestamp'>>({
      type: {
        ...TEXT,
        description:
          'Such as text-delta, tool-call, tool-result, tools-injected, approval-request and, last, run-end.',
      },
      runId: TEXT,
      sequence: WHOLE,
      timestamp: TIME,
    }),
  ),
  Run: RUN,
  Result: declared<
    LoopResult,
    'runId' | 'output' | 'text' | 'finishReason' | 'waitingFor' | 'steps' | 'toolCalls' | 'usage'
  >({
    runId: TEXT,
    output: optional({ ...ANY, description: 'In the form that the application declares.' }),
    text: TEXT,
    finishReason: FINISH_REASON,
    waitingFor: optional(WAITING_FOR),
    steps: WHOLE,
    toolCalls: list(ref('ToolCall')),
    usage: declared<Usage, 'inputTokens' | 'outputTokens'>({
      inputTokens: WHOLE,
      outputTokens: WHOLE,
    }),
  }),
  ToolCall: declared<
    ToolInvocationRecord,
    | 'toolCallId'
    | 'id'
    | 'declaredId'
    | 'effect'
    | 'args'
    | 'result'
    | 'error'
    | 'durationMs'
    | 'status'
  >({
    toolCallId: TEXT,
    id: TEXT,
    declaredId: optional(TEXT),
    effect: optional(EFFECT),
    args: optional(OPEN),
    status: words('succeeded', 'failed', 'denied', 'waiting'),
    result: optional(ANY),
    error: optional(FAILURE),
    durationMs: AMOUNT,
  }),
  MadeCall: MADE_CALL,
  Tool: LISTED_TOOL,
  Approval: declared<Approval>({ ...APPROVAL, answer: optional(GIVEN_ANSWER) }),
  ApprovalGroup: declared<ApprovalGroup>({
    group: TEXT,
    runId: TEXT,
    path: optional(TEXTS),
    step: WHOLE,
    tool: TEXT,
    declaredId: TEXT,
    reason: TEXT,
    calls: list(ref('Approval')),
  }),
  Question: declared<QuestionRequest>({
    ...WAITING_CALL,
    questionId: TEXT,
    key: TEXT,
    question: TEXT,
    schema: { ...OPEN, description: 'The JSON Schema of the answer.' },
    askedBy: words('tool', 'model'),
    isTainted: YES_OR_NO,
  }),
  Waiting: declared<WaitingRequest>({
    id: TEXT,
    requestedBy: optional(TEXT),
    mayAnswer: optional(YES_OR_NO),
    roles: optional(TEXTS),
    createdAt: optional(TIME),
    kind: WAITING_FOR,
    request: OPEN,
  }),
  Answered: ANSWERED,
  Undoing: UNDOING,
  Conversation: CONVERSATION,
  ConversationPage: CONVERSATION_PAGE,
  Directive: DIRECTIVE,
  UsageReport: object({ rows: list(USAGE_SUMS), next: optional(TEXT) }),
  Decision: declared<Decision, 'kind' | 'rule' | 'reason' | 'policyVersion'>({
    kind: words('allow', 'deny', 'require_approval'),
    rule: TEXT,
    reason: TEXT,
    policyVersion: TEXT,
  }),
  ExplainedTool: EXPLAINED_TOOL,
  ExplainedCall: EXPLAINED_CALL,
  PolicyVersion: POLICY_VERSION,
  PolicyDifference: CHANGED_POLICY,
  PolicyReplay: POLICY_REPLAY,
  RehearsalChoices: declared<RehearsalChoices>({ models: TEXTS, policies: TEXTS }),
  RehearsedRun: declared<RehearsedRun>({
    runId: TEXT,
    rehearsedBy: optional(TEXT),
    model: optional(TEXT),
    policy: optional(TEXT),
    isOver: YES_OR_NO,
    finishReason: optional(FINISH_REASON),
    calls: list(OPEN),
  }),
  PolicyStop: POLICY_STOP,
  Source: SOURCE,
  SourceReport: SOURCE_REPORT,
  ViewedActor: VIEWED_ACTOR,
  AuditHead: AUDIT_HEAD,
  Health: HEALTH,
  Readiness: typed<ReadyAnswer>(object({ status: words('ready', 'leaving', 'unavailable') })),
  AssistantState: object({ runId: TEXT, state: OPEN }),
  Model: MODEL,
  Models: object({ object: words('list'), data: list(typed<ValueOf<typeof MODEL>>(OPEN)) }),
  ChatCompletion: object({
    id: TEXT,
    object: words('chat.completion'),
    created: WHOLE,
    model: TEXT,
    choices: list(OPEN),
    usage: optional(OPEN),
  }),
} satisfies Readonly<Record<string, Form>>;

/** The answer to something that a run had asked. */
export type GivenAnswer = ValueOf<typeof GIVEN_ANSWER>;

/** A call that waits for a yes or no, with the answer once there is one. */
export interface Approval extends ApprovalRequest {
  readonly answer?: GivenAnswer;
}

/** The body of a refusal: the part of an error that a caller may know. */
export type ErrorBody = ValueOf<typeof ERROR>;

/** A run as the routes show it. */
export type Run = ValueOf<typeof RUN>;

/** A tool that the actor's model may call from the first step. */
export type ListedTool = ValueOf<typeof LISTED_TOOL>;

/** A call that was made by hand. */
export type MadeCall = ValueOf<typeof MADE_CALL>;

/** Something that waits for people or for a client, as those who may see it are shown it. */
export type WaitingRequest = {
  readonly id: string;
  /** The id of the actor whose run asks. */
  readonly requestedBy?: string;
  /** Absent or false where the person may only see it. */
  readonly mayAnswer?: boolean;
  /**
   * The roles of which those who answer must have one by now. Absent where no role is asked for.
   */
  readonly roles?: readonly string[];
  /** ISO 8601, UTC. */
  readonly createdAt?: string;
} & (
  | { readonly kind: 'approval'; readonly request: ApprovalRequest }
  | { readonly kind: 'question'; readonly request: QuestionRequest }
  | { readonly kind: 'client'; readonly request: ClientCallRequest }
  | { readonly kind: 'rehearsal'; readonly request: RehearsalRequest }
);

/** Something that was answered, with the answer. */
export type AnsweredRequest = ValueOf<typeof ANSWERED>;

/** The undoing of a run, as far as it came: the calls that changed something, the latest first. */
export type Undoing = ValueOf<typeof UNDOING>;

/** A conversation in a list. */
export type ConversationSummary = ValueOf<typeof CONVERSATION>;

/** A message of a conversation. */
export type ConversationEntry = ValueOf<typeof ENTRY>;

/** A page of a conversation, as people may see it. */
export type ConversationPage = ValueOf<typeof CONVERSATION_PAGE>;

/** A directive as people may see it: the ui projection, and nothing of what it is bound to. */
export type DirectiveView = ValueOf<typeof DIRECTIVE>;

/**
 * A row of a report of usage: the dimensions that it is grouped by, those without a value left out,
 * and the sums.
 */
export type UsageSums = ValueOf<typeof USAGE_SUMS>;

/** The reasons why a run of an actor is offered a tool, or is not. */
export type ExplainedTool = ValueOf<typeof EXPLAINED_TOOL>;

/** The entries of the audit about one call. */
export type ExplainedCall = ValueOf<typeof EXPLAINED_CALL>;

/** A version of the policies of a tenant, as a person put it. */
export type PutPolicies = ValueOf<typeof POLICY_VERSION>;

/** A difference between two versions of policies. */
export type ChangedPolicy = ValueOf<typeof CHANGED_POLICY>;

/** A stored run whose calls were decided again. */
export interface ReplayedRun {
  readonly runId: string;
  /** The reason for which nothing of it was decided again. */
  readonly problem?: string;
  /** The number of calls that were decided again. */
  readonly decided: number;
  readonly changed: readonly {
    readonly toolCallId: string;
    readonly step: number;
    readonly declaredId: string;
    readonly before: Decision;
    readonly after: Decision;
  }[];
  readonly skipped: readonly { readonly toolCallId: string; readonly why: string }[];
}

/** The decisions of stored runs that other policies would have made otherwise. */
export type ReplayedPolicies = ValueOf<typeof POLICY_REPLAY>;

/** A kill switch that is on. */
export type Stop = ValueOf<typeof POLICY_STOP>;

/** A tool of a source, as it is offered now. */
export type SourcedTool = ValueOf<typeof SOURCED_TOOL>;

/** A source of tools. */
export type ListedSource = ValueOf<typeof SOURCE>;

/** The sources of tools, and what is not well with the tools of the application by now. */
export type SourceReport = ValueOf<typeof SOURCE_REPORT>;

/** A tool as another person would be offered it. */
export interface ViewedTool extends ExplainedTool {
  readonly description: string;
  readonly effect: ValueOf<typeof EFFECT>;
  readonly source: string;
  readonly presentation?: ToolPresentation;
}

/**
 * The things that an operator sees who looks as another person: lists and reasons, and no way to
 * act.
 */
export type ViewedActor = ValueOf<typeof VIEWED_ACTOR>;

/** The answer of a process that lives. */
export type Health = ValueOf<typeof HEALTH>;

/**
 * The answer of a process that a load balancer asks whether to send it requests, with its parts by
 * name and state.
 */
export interface ReadyAnswer {
  readonly status: 'ready' | 'leaving' | 'unavailable';
  readonly [check: string]: string;
}

export type AnswerName = keyof typeof ANSWERS;

/** The type of the answer of this name. */
export type AnswerNamed<Name extends AnswerName> = ValueOf<(typeof ANSWERS)[Name]>;
