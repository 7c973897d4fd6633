import type { PolicyReplay } from '@toolloop/core/runs';
import type { PolicyStop, PolicyVersion } from '@toolloop/core/stores';
import type { SignedAuditHead } from '@toolloop/core/audit';
import type { CallResult } from '@toolloop/core/contracts';
import type { DirectiveView } from '@toolloop/core/directives';
import type { UsageReport } from '@toolloop/core/usage';
import {
  type AnsweredRequest,
  type Approval,
  type ApprovalGroup,
  type ApprovalRequest,
  type ConversationEntry,
  type ConversationPage,
  type ConversationSummary,
  type Decision,
  DIRECTIVE_STATUSES,
  type Endorsable,
  type ExplainedCall,
  type ExplainedTool,
  type Finding,
  type GivenAnswer,
  type Health,
  type ListedSource,
  type ListedTool,
  type LoopEvent,
  type LoopResult,
  type QuestionRequest,
  type ReadyAnswer,
  type RehearsalChoices,
  type RehearsedRun,
  type Run,
  type SourcedTool,
  type SourceReport,
  type ToolFailure,
  type ToolInvocationRecord,
  type Undoing,
  type Usage,
  type ViewedActor,
  type WaitingCall,
  type WaitingRequest,
} from '@toolloop/protocol';
import type { ErrorBody } from './exception-filter.js';

/** A schema of OpenAPI, as far as the answers need it. */
export interface AnswerSchema {
  readonly type?: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object';
  readonly format?: string;
  readonly description?: string;
  readonly enum?: readonly string[];
  readonly items?: AnswerSchema;
  readonly properties?: Readonly<Record<string, AnswerSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly anyOf?: readonly AnswerSchema[];
  readonly $ref?: string;
}

/** A member that may be left out. */
interface Optional {
  readonly optional: AnswerSchema;
}

/**
 * The members of an answer: those of its type, so that one that is added or left out does not
 * compile.
 */
type MembersOf<Answer> = {
  readonly [Name in keyof Answer]-?: object extends Pick<Answer, Name> ? Optional : AnswerSchema;
};

const TEXT: AnswerSchema = { type: 'string' };
const TIME: AnswerSchema = { type: 'string', format: 'date-time' };
const WHOLE: AnswerSchema = { type: 'integer' };
const AMOUNT: AnswerSchema = { type: 'number' };
const YES_OR_NO: AnswerSchema = { type: 'boolean' };
const OPEN: AnswerSchema = { type: 'object', additionalProperties: true };
const ANY: AnswerSchema = {
  anyOf: [TEXT, AMOUNT, YES_OR_NO, { type: 'array', items: {} }, OPEN],
  description: 'Any JSON.',
};

function words(...choices: readonly string[]): AnswerSchema {
  return { type: 'string', enum: choices };
}

function list(items: AnswerSchema): AnswerSchema {
  return { type: 'array', items };
}

function optional(schema: AnswerSchema): Optional {
  return { optional: schema };
}

function ref(name: string): AnswerSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** The schema of an object that may gain further members with a later version. */
function object<Answer>(members: MembersOf<Answer>): AnswerSchema {
  const entries = Object.entries<AnswerSchema | Optional>(members);
  const required = entries.flatMap(([name, member]) => ('optional' in member ? [] : [name]));
  const properties = Object.fromEntries(
    entries.map(([name, member]) => [name, 'optional' in member ? member.optional : member]),
  );
  return { type: 'object', properties, ...(required.length > 0 && { required }) };
}

const EFFECT = words('read_only', 'state_change', 'external_side_effect');
const WAITING_FOR = words('approval', 'question', 'client', 'rehearsal');
const CHANGE = object<{ field: string; before?: string; after?: string }>({
  field: TEXT,
  before: optional(ANY),
  after: optional(ANY),
});
const PREVIEW = object<{ sentence: string; changes?: string }>({
  sentence: TEXT,
  changes: optional(list(CHANGE)),
});

const WAITING_CALL: MembersOf<WaitingCall> = {
  runId: TEXT,
  path: optional(list(TEXT)),
  step: WHOLE,
  toolCallId: TEXT,
  tool: TEXT,
  declaredId: TEXT,
  instanceId: optional(TEXT),
  presentation: optional(OPEN),
  expiresAt: TIME,
};

const TRUST = { arguments: optional(list(TEXT)), sources: optional(list(TEXT)) };

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
  mayEndorse: optional(object<Endorsable>({ ...TRUST, always: optional(list(TEXT)) })),
  group: optional(TEXT),
};

const GIVEN_ANSWER = object<GivenAnswer>({
  decision: words('approve', 'deny', 'answer', 'withdraw'),
  reason: optional(TEXT),
  decidedBy: TEXT,
  decidedAt: TIME,
  endorse: optional(object<NonNullable<GivenAnswer['endorse']>>(TRUST)),
});

const FAILURE = object<Pick<ToolFailure, 'code' | 'safeMessage'>>({
  code: TEXT,
  safeMessage: TEXT,
});

/** The answers that have a name in the document. */
export const ANSWERS = {
  Error: object<ErrorBody>({
    code: { ...TEXT, description: 'The reason for programs, such as unknown_run.' },
    message: TEXT,
    details: optional(list(TEXT)),
    runId: optional(TEXT),
    correlationId: optional({
      ...TEXT,
      description: 'The id under which the log of the server has the cause.',
    }),
  }),
  OpenAiError: object<{ error: string }>({
    error: object<{ message: string; type: string; code: string }>({
      message: TEXT,
      type: TEXT,
      code: TEXT,
    }),
  }),
  LoopEvent: object<Pick<LoopEvent, 'type' | 'runId' | 'sequence' | 'timestamp'>>({
    type: {
      ...TEXT,
      description:
        'Such as text-delta, tool-call, tool-result, tools-injected, approval-request and, last, run-end.',
    },
    runId: TEXT,
    sequence: WHOLE,
    timestamp: TIME,
  }),
  Run: object<Run>({
    runId: TEXT,
    status: words('queued', 'running', 'waiting', 'ended'),
    durable: YES_OR_NO,
    finishReason: optional(TEXT),
    waitingFor: optional(WAITING_FOR),
    lastSequence: WHOLE,
    forkOf: optional(object<NonNullable<Run['forkOf']>>({ runId: TEXT, step: WHOLE })),
    actorId: optional(TEXT),
    createdAt: TIME,
    updatedAt: TIME,
  }),
  Result: object<
    Pick<
      LoopResult,
      'runId' | 'output' | 'text' | 'finishReason' | 'waitingFor' | 'steps' | 'toolCalls' | 'usage'
    >
  >({
    runId: TEXT,
    output: optional({ ...ANY, description: 'In the form that the application declares.' }),
    text: TEXT,
    finishReason: TEXT,
    waitingFor: optional(WAITING_FOR),
    steps: WHOLE,
    toolCalls: list(ref('ToolCall')),
    usage: object<Pick<Usage, 'inputTokens' | 'outputTokens'>>({
      inputTokens: WHOLE,
      outputTokens: WHOLE,
    }),
  }),
  ToolCall: object<
    Pick<
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
    >
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
  MadeCall: object<
    Pick<CallResult, 'runId' | 'record' | 'injectedTools' | 'waiting'> & { readonly ui?: unknown }
  >({
    runId: TEXT,
    record: ref('ToolCall'),
    ui: optional(ANY),
    injectedTools: list(TEXT),
    waiting: optional(
      object<NonNullable<CallResult['waiting']>>({ runId: TEXT, for: WAITING_FOR }),
    ),
  }),
  Tool: object<ListedTool>({
    id: TEXT,
    description: TEXT,
    effect: EFFECT,
    inputSchema: OPEN,
    presentation: optional(OPEN),
  }),
  Approval: object<Approval>({ ...APPROVAL, answer: optional(GIVEN_ANSWER) }),
  ApprovalGroup: object<ApprovalGroup>({
    group: TEXT,
    runId: TEXT,
    path: optional(list(TEXT)),
    step: WHOLE,
    tool: TEXT,
    declaredId: TEXT,
    reason: TEXT,
    calls: list(ref('Approval')),
  }),
  Question: object<QuestionRequest>({
    ...WAITING_CALL,
    questionId: TEXT,
    key: TEXT,
    question: TEXT,
    schema: { ...OPEN, description: 'The JSON Schema of the answer.' },
    askedBy: words('tool', 'model'),
    isTainted: YES_OR_NO,
  }),
  Waiting: object<
    Pick<
      WaitingRequest,
      'id' | 'requestedBy' | 'mayAnswer' | 'roles' | 'createdAt' | 'kind' | 'request'
    >
  >({
    id: TEXT,
    requestedBy: optional(TEXT),
    mayAnswer: optional(YES_OR_NO),
    roles: optional(list(TEXT)),
    createdAt: optional(TIME),
    kind: WAITING_FOR,
    request: OPEN,
  }),
  Answered: object<AnsweredRequest>({
    id: TEXT,
    kind: WAITING_FOR,
    answer: optional(GIVEN_ANSWER),
  }),
  Undoing: object<Undoing>({
    runId: TEXT,
    calls: list(
      object<Undoing['calls'][number]>({
        toolCallId: TEXT,
        declaredId: TEXT,
        directiveId: optional(TEXT),
        status: words('undone', 'no_effect', 'under_way', 'failed', 'not_possible', 'not_reached'),
        reason: optional(TEXT),
      }),
    ),
  }),
  Conversation: object<ConversationSummary>({
    conversationId: TEXT,
    messages: WHOLE,
    updatedAt: TIME,
  }),
  ConversationPage: object<ConversationPage>({
    conversationId: TEXT,
    entries: list(
      object<ConversationEntry>({
        position: WHOLE,
        role: words('user', 'assistant', 'tool'),
        text: TEXT,
        messageId: optional(TEXT),
        call: optional(ref('ToolCall')),
      }),
    ),
    next: optional(WHOLE),
  }),
  Directive: object<DirectiveView>({
    directiveId: TEXT,
    type: TEXT,
    subject: TEXT,
    task: words('perform', 'compensate'),
    status: words(...DIRECTIVE_STATUSES),
    declaredId: TEXT,
    args: OPEN,
    preview: optional(PREVIEW),
    requestedBy: TEXT,
    runId: TEXT,
    toolCallId: TEXT,
    correlationId: TEXT,
    attempts: WHOLE,
    result: optional(ANY),
    failure: optional(FAILURE),
    createdAt: TIME,
    updatedAt: TIME,
    dueAt: optional(TIME),
  }),
  UsageReport: object<UsageReport>({
    rows: list(
      object<UsageReport['rows'][number]>({
        tenant: optional(TEXT),
        day: optional(TEXT),
        actor: optional(TEXT),
        tool: optional(TEXT),
        model: optional(TEXT),
        calls: WHOLE,
        answers: WHOLE,
        unpricedAnswers: WHOLE,
        inputTokens: WHOLE,
        outputTokens: WHOLE,
        usd: AMOUNT,
      }),
    ),
    next: optional(TEXT),
  }),
  Decision: object<Pick<Decision, 'kind' | 'rule' | 'reason' | 'policyVersion'>>({
    kind: words('allow', 'deny', 'require_approval'),
    rule: TEXT,
    reason: TEXT,
    policyVersion: TEXT,
  }),
  ExplainedTool: object<ExplainedTool>({
    declaredId: TEXT,
    isListed: YES_OR_NO,
    isCallable: { anyOf: [YES_OR_NO, words('asks')] },
    reasons: list(
      object<ExplainedTool['reasons'][number]>({
        by: TEXT,
        holds: YES_OR_NO,
        reason: TEXT,
        decision: optional(ref('Decision')),
      }),
    ),
  }),
  ExplainedCall: object<ExplainedCall>({
    runId: TEXT,
    toolCallId: TEXT,
    declaredId: optional(TEXT),
    events: list(
      object<ExplainedCall['events'][number]>({
        at: TIME,
        kind: TEXT,
        decision: optional(ref('Decision')),
        reason: optional(TEXT),
        decidedBy: optional(TEXT),
        status: optional(TEXT),
        code: optional(TEXT),
      }),
    ),
  }),
  PolicyVersion: object<PolicyVersion>({
    tenant: optional(TEXT),
    number: WHOLE,
    policies: optional(list(OPEN)),
    author: TEXT,
    reason: TEXT,
    rollbackOf: optional(WHOLE),
    endorsed: optional(list(OPEN)),
    at: TIME,
  }),
  PolicyDifference: object<{ at: string; before?: string; after?: string }>({
    at: TEXT,
    before: optional(ANY),
    after: optional(ANY),
  }),
  PolicyReplay: object<PolicyReplay>({ version: optional(WHOLE), runs: list(OPEN) }),
  RehearsalChoices: object<RehearsalChoices>({ models: list(TEXT), policies: list(TEXT) }),
  RehearsedRun: object<RehearsedRun>({
    runId: TEXT,
    rehearsedBy: optional(TEXT),
    model: optional(TEXT),
    policy: optional(TEXT),
    isOver: YES_OR_NO,
    finishReason: optional(TEXT),
    calls: list(OPEN),
  }),
  PolicyStop: object<PolicyStop>({
    tenant: optional(TEXT),
    stopId: TEXT,
    tool: optional(TEXT),
    source: optional(TEXT),
    author: TEXT,
    reason: TEXT,
    at: TIME,
  }),
  Source: object<ListedSource>({
    source: TEXT,
    prefix: optional(TEXT),
    trusted: YES_OR_NO,
    state: words('starting', 'ready', 'unreachable'),
    since: TIME,
    tools: list(
      object<SourcedTool>({
        declaredId: TEXT,
        effect: EFFECT,
        schemaHash: TEXT,
        pinned: optional(YES_OR_NO),
      }),
    ),
    quarantined: list(
      object<ListedSource['quarantined'][number]>({
        id: TEXT,
        reason: TEXT,
        schemaHash: optional(TEXT),
      }),
    ),
    leftOut: WHOLE,
    lastError: optional(TEXT),
  }),
  SourceReport: object<SourceReport>({
    sources: list(ref('Source')),
    findings: list(object<Finding>({ at: TEXT, problem: TEXT, remedy: TEXT })),
  }),
  ViewedActor: object<ViewedActor>({
    actor: object<ViewedActor['actor']>({ id: TEXT, name: optional(TEXT), roles: list(TEXT) }),
    may: list(TEXT),
    tools: list(ref('ExplainedTool')),
    runs: list(ref('Run')),
    waiting: list(ref('Waiting')),
  }),
  AuditHead: object<SignedAuditHead>({
    tenant: TEXT,
    sequence: WHOLE,
    hash: TEXT,
    version: WHOLE,
    at: TIME,
    keyId: TEXT,
    signature: TEXT,
  }),
  Health: object<Health>({ status: words('ok') }),
  Readiness: object<Pick<ReadyAnswer, 'status'>>({
    status: words('ready', 'leaving', 'unavailable'),
  }),
  AssistantState: object<{ runId: string; state: string }>({ runId: TEXT, state: OPEN }),
  Model: object<{ id: string; object: string; created: string; owned_by: string }>({
    id: TEXT,
    object: words('model'),
    created: WHOLE,
    owned_by: words('toolloop'),
  }),
  Models: object<{ object: string; data: string }>({ object: words('list'), data: list(OPEN) }),
  ChatCompletion: object<{
    id: string;
    object: string;
    created: string;
    model: string;
    choices: string;
    usage?: string;
  }>({
    id: TEXT,
    object: words('chat.completion'),
    created: WHOLE,
    model: TEXT,
    choices: list(OPEN),
    usage: optional(OPEN),
  }),
} satisfies Readonly<Record<string, AnswerSchema>>;

export type AnswerName = keyof typeof ANSWERS;
