import { type AnswerName, type AnswerNamed } from './answers.js';
import {
  type Flat,
  type Form,
  type FormSchema,
  list,
  object,
  ref,
  TEXT,
  typed,
  type ValueOf,
  WHOLE,
  oneOf,
  optional,
  says,
  words,
} from './form.js';
import {
  ASK,
  BODIES,
  type BodyName,
  LAST_SEQUENCE,
  MOST_LISTED,
  NAME,
  PAGE,
  POLICY_NAME,
  WAITING_PAGE,
  YES_OR_NOT,
} from './requests.js';
import { DIRECTIVE_STATUSES, type DirectiveStatus } from '../decision.js';

const JSON_TYPE = 'application/json';
const KEY = ['idempotency-key'];
const READ_ON = ['last-event-id'];
const NUMBERED = object({ number: WHOLE });
const STREAMED = typed<never>(TEXT);

const EVENTS: RouteAnswer<never> = {
  description:
    'Server-sent events: each has a LoopEvent as JSON in its data, and its sequence in its id.',
  type: 'text/event-stream',
  schema: STREAMED,
};
const NO_MORE: RouteAnswer<never> = { description: 'There is no more to read.' };
const DONE: RouteAnswer<void> = { description: 'It is done.' };

/**
 * Every route of `@toolloop/http`. Its controllers, its checks of requests and its OpenAPI document
 * read this table, and the client has its types, paths and methods from it.
 */
export const ROUTES = {
  'POST /chat': {
    body: 'AskToStream',
    summary: 'Asks, and streams the events of the run.',
    answers: { 200: EVENTS },
    errors: [403, 409, 502],
    headers: KEY,
  },
  'GET /chat/stream': {
    query: ASK,
    dropsOthers: true,
    summary: 'Asks for an EventSource, which reads on by Last-Event-ID.',
    answers: { 200: EVENTS, 204: NO_MORE },
    errors: [403, 404, 405, 409, 410],
    headers: READ_ON,
  },
  'POST /chat/answer': {
    body: 'AskBody',
    summary: 'Asks, and returns one result.',
    answers: { 200: one('Result') },
    errors: [403, 409, 502],
    headers: KEY,
  },
  'POST /ai/chat': {
    summary: 'Answers a chat of AI SDK 7.',
    answers: { 200: stream('UI messages of AI SDK 7') },
    errors: [403, 404, 409],
    headers: KEY,
    body: bodyOf('AI SDK 7', ['id', 'messages']),
  },
  'GET /ai/chat/:chatId/stream': {
    summary: 'Reads the answer that is under way in a chat again, from its beginning.',
    answers: { 200: stream('UI messages of AI SDK 7'), 204: NO_MORE },
    errors: [405],
  },
  'POST /ai/agui': {
    summary: 'Answers a client of AG-UI 1.0.',
    answers: { 200: stream('AG-UI 1.0') },
    errors: [403, 404, 409],
    body: bodyOf('AG-UI', ['threadId', 'runId', 'messages']),
  },
  'POST /ai/agui/connect': {
    summary: 'Reads the answer that is under way in a thread again, from its beginning.',
    answers: { 200: stream('AG-UI 1.0'), 204: NO_MORE },
    body: bodyOf('AG-UI', ['threadId', 'runId', 'messages']),
  },
  'POST /ai/assistant': {
    summary: 'Answers a client of the assistant transport of assistant-stream.',
    answers: { 200: stream('the assistant transport') },
    errors: [403, 404, 409],
    body: bodyOf('the assistant transport', ['commands']),
  },
  'POST /ai/assistant/resume-state': {
    summary: 'Shows the state that a client had when it asked what is answered in its thread.',
    answers: { 200: one('AssistantState'), 204: NO_MORE },
    body: bodyOf('the assistant transport', ['threadId']),
  },
  'POST /ai/assistant/resume': {
    summary: 'Reads the answer that is under way in a thread again, from its beginning.',
    answers: { 200: stream('the assistant transport'), 204: NO_MORE },
    body: bodyOf('the assistant transport', ['commands']),
  },
  'POST /ai/data-stream': {
    summary: 'Answers a client of the data stream of assistant-stream.',
    answers: { 200: stream('the data stream', 'text/plain') },
    errors: [403, 404, 409],
    body: bodyOf('the data stream', ['messages']),
  },
  'GET /v1/models': {
    summary: 'Lists the loop as a model of OpenAI’s API.',
    answers: { 200: one('Models') },
    error: 'OpenAiError',
  },
  'GET /v1/models/:model': {
    summary: 'Shows the loop as a model of OpenAI’s API.',
    answers: { 200: one('Model') },
    errors: [404],
    error: 'OpenAiError',
  },
  'POST /v1/chat/completions': {
    summary: 'Answers a chat completion: as a stream of chunks where "stream" is true.',
    answers: { 200: { ...one('ChatCompletion'), schema: typed<never>(ref('ChatCompletion')) } },
    errors: [403, 404, 409, 502],
    headers: KEY,
    body: bodyOf('chat completions', ['model', 'messages']),
    error: 'OpenAiError',
  },
  'POST /runs': {
    body: 'AskBody',
    summary: 'Queues a durable run.',
    answers: { 202: one('Run', 'It is queued. Location has its address.') },
    errors: [403, 409],
    headers: KEY,
  },
  'GET /runs': {
    query: object({
      ...PAGE,
      /** Another actor of the tenant, for an operator who is permitted `runs`. */
      actorId: optional(NAME),
      /** Everyone of the tenant, for such an operator. @default false */
      ofTenant: optional(YES_OR_NOT),
      status: optional(oneOf('queued', 'running', 'waiting', 'ended')),
    }),
    summary: 'Lists runs, the newest first.',
    answers: { 200: listOf('Run') },
    errors: [403],
  },
  'GET /runs/:runId': {
    summary: 'Shows a run.',
    answers: { 200: one('Run') },
    errors: [404],
  },
  'GET /runs/:runId/events': {
    // other members of the query, such as a ticket, are the application's
    query: object({
      /** The sequence of the last event that the client knows. */
      after: optional(
        says(
          { ...WHOLE, minimum: 0, maximum: LAST_SEQUENCE, default: 0 },
          { type: 'after must be the sequence of an event' },
        ),
      ),
    }),
    dropsOthers: true,
    summary: 'Streams the events of a run behind a sequence.',
    answers: { 200: EVENTS, 204: NO_MORE },
    errors: [404, 405, 409, 410],
    headers: READ_ON,
  },
  'POST /runs/:runId/resume': {
    summary: 'Resumes a run that was answered, and streams its events.',
    answers: { 200: EVENTS },
    errors: [404, 409],
  },
  'POST /runs/:runId/answer': {
    body: 'ReplyBody',
    summary: 'Answers what a run asked.',
    answers: { 200: one('Answered') },
    errors: [403, 404, 409],
  },
  'POST /runs/:runId/resume/answer': {
    summary: 'Resumes a run that was answered, and returns its result.',
    answers: { 200: one('Result') },
    errors: [404, 409, 502],
  },
  'POST /runs/:runId/cancel': {
    body: 'StopRun',
    summary: 'Ends a run.',
    answers: { 202: one('Run', 'It is ending.') },
    errors: [404, 409],
  },
  'POST /runs/:runId/undo': {
    body: 'StopRun',
    summary: 'Undoes what an ended run did, as far as that can be undone.',
    answers: { 200: one('Undoing') },
    errors: [403, 404, 409],
  },
  'POST /runs/:runId/rehearse': {
    body: 'RehearsalOrder',
    summary: 'Rehearses a run with another model, another policy or both.',
    answers: {
      200: one(
        'RehearsedRun',
        'The comparison; with a model, the id of a run that is compared as it comes.',
      ),
    },
    errors: [403, 404],
  },
  'GET /runs/:runId/rehearsal': {
    query: object({
      policy: optional(POLICY_NAME),
    }),
    summary: 'Compares a rehearsal with its run, or a run with what a policy would have decided.',
    answers: { 200: one('RehearsedRun') },
    errors: [403, 404],
  },
  'POST /runs/:runId/fork': {
    body: 'ForkFrom',
    summary: 'Queues a run that continues from a step of this one.',
    answers: { 202: one('Run', 'It is queued. Location has its address.') },
    errors: [403, 404, 409],
    headers: KEY,
  },
  'GET /rehearsals': {
    summary: 'Lists the models and policies with which runs can be rehearsed.',
    answers: { 200: one('RehearsalChoices') },
    errors: [403],
  },
  'GET /approvals': {
    query: object(WAITING_PAGE),
    summary: 'Lists the calls that wait for a yes or no.',
    answers: { 200: listOf('Approval') },
    errors: [403],
  },
  'GET /approvals/groups': {
    query: object(WAITING_PAGE),
    summary:
      'Lists the same calls by their kind and step, of which one decision can be taken. A page is one of calls: a group that stands on two pages is on both.',
    answers: { 200: all('ApprovalGroup') },
    errors: [403],
  },
  'GET /approvals/:approvalId': {
    summary: 'Shows an approval, with its answer once there is one.',
    answers: { 200: one('Approval') },
    errors: [403, 404],
  },
  'POST /approvals/:approvalId': {
    body: 'Verdict',
    dropsOthers: true,
    summary: 'Says yes or no to a call.',
    answers: { 200: one('Approval') },
    errors: [403, 404, 409],
  },
  'GET /questions': {
    query: object(WAITING_PAGE),
    summary: 'Lists the questions that calls ask people.',
    answers: { 200: listOf('Question') },
    errors: [403],
  },
  'POST /questions/:questionId': {
    body: 'QuestionReply',
    summary: 'Answers a question.',
    answers: { 200: one('Answered') },
    errors: [403, 404, 409],
  },
  'GET /pending': {
    query: object({
      ...WAITING_PAGE,
      kind: optional(oneOf('approval', 'question', 'client', 'rehearsal')),
    }),
    summary: 'Lists everything that waits for the caller.',
    answers: { 200: listOf('Waiting') },
    errors: [403],
  },
  'GET /tools': {
    summary: 'Lists the tools that the caller’s model may call.',
    answers: { 200: all('Tool') },
  },
  'POST /tools/:tool': {
    body: 'CallByHand',
    summary: 'Calls a tool by hand. What is wrong with the call is in its record.',
    answers: {
      200: one('MadeCall'),
      202: one('MadeCall', 'It waits for a person. Location has the address of its run.'),
    },
    errors: [403, 404, 409],
    headers: KEY,
  },
  'GET /explain/:tool': {
    query: object({
      /** An actor of the operator's own tenant. @default the operator */
      actorId: optional(TEXT),
      runId: optional(TEXT),
      toolCallId: optional(TEXT),
    }),
    summary:
      'Explains why a tool is offered or not, or with runId and toolCallId what became of a call.',
    answers: { 200: either('ExplainedTool', 'ExplainedCall') },
    errors: [403, 404],
  },
  'GET /conversations': {
    query: object(PAGE),
    summary: 'Lists the caller’s conversations.',
    answers: { 200: listOf('Conversation') },
  },
  'GET /conversations/:conversationId': {
    query: object({
      /** The number of its first message. */
      from: optional(
        says(
          { ...TEXT, pattern: '^\\d{1,9}$' },
          { pattern: 'from must be the number of a message' },
        ),
      ),
    }),
    dropsOthers: true,
    summary: 'Reads a conversation from a message on.',
    answers: { 200: one('ConversationPage') },
    errors: [404],
  },
  'DELETE /conversations/:conversationId': {
    summary: 'Deletes a conversation.',
    answers: { 204: DONE },
    errors: [404],
  },
  'GET /directives': {
    query: object({
      ...PAGE,
      status: optional(oneOf<DirectiveStatus>(...DIRECTIVE_STATUSES)),
      subject: optional(NAME),
    }),
    dropsOthers: true,
    summary: 'Lists effects that take place later.',
    answers: { 200: listOf('Directive') },
  },
  'GET /directives/:directiveId': {
    summary: 'Shows a directive.',
    answers: { 200: one('Directive') },
    errors: [404],
  },
  'POST /directives/:directiveId/cancel': {
    body: 'StopRun',
    dropsOthers: true,
    summary: 'Cancels a directive, or begins to undo its effect.',
    answers: { 200: one('Directive') },
    errors: [403, 404, 409],
  },
  'POST /directives/:directiveId/redrive': {
    body: 'Redrive',
    dropsOthers: true,
    summary: 'Tells what a person found of an effect whose outcome is unknown.',
    answers: { 200: one('Directive') },
    errors: [403, 404, 409],
  },
  'GET /usage': {
    query: object({
      ...PAGE,
      /** A tenant, for an operator of it. @default the reader's own */
      tenant: optional(TEXT),
      /** Set for all tenants, which only operators of all of them may see. */
      everywhere: optional(YES_OR_NOT),
      /** @default everyone of the tenant, which only operators may see */
      actor: optional(TEXT),
      tool: optional(TEXT),
      model: optional(TEXT),
      /** The first and the last day in UTC, such as `2026-11-01`. @default the last 30 days */
      from: optional(TEXT),
      to: optional(TEXT),
      /** `day,model` has a row for each day and model. @default one row, the sum of all */
      groupBy: optional(list(words('tenant', 'day', 'actor', 'tool', 'model'))),
    }),
    summary: 'Reports what was used.',
    answers: { 200: one('UsageReport') },
    errors: [403],
  },
  'GET /policies': {
    query: object({
      limit: optional<number>({ ...WHOLE, minimum: 1, maximum: MOST_LISTED }),
      /** The number of the last one of the previous page. */
      before: optional(WHOLE),
    }),
    summary: 'Lists the versions of the tenant’s policies, the newest first.',
    answers: { 200: listOf('PolicyVersion') },
    errors: [403],
  },
  'POST /policies': {
    body: 'NewPolicy',
    summary: 'Puts policies in force.',
    answers: { 201: one('PolicyVersion') },
    errors: [403, 409],
  },
  'GET /policies/diff': {
    query: object({ from: WHOLE, to: WHOLE }),
    summary: 'Compares two versions.',
    answers: { 200: all('PolicyDifference') },
    errors: [403, 404],
  },
  'GET /policies/stops': {
    summary: 'Lists what is stopped.',
    answers: { 200: all('PolicyStop') },
    errors: [403],
  },
  'POST /policies/stops': {
    body: 'StopOrder',
    summary: 'Stops a tool, a source or everything of the tenant.',
    answers: { 201: one('PolicyStop') },
    errors: [403, 409],
  },
  'POST /policies/stops/:stopId/release': {
    body: 'Reasoned',
    summary: 'Releases what was stopped.',
    answers: { 204: DONE },
    errors: [403, 404],
  },
  'POST /policies/replay': {
    body: 'ReplayOrder',
    summary: 'Decides again about the calls of stored runs, by other policies.',
    answers: { 200: one('PolicyReplay') },
    errors: [403, 404],
  },
  'GET /policies/:number': {
    params: NUMBERED,
    summary: 'Shows a version.',
    answers: { 200: one('PolicyVersion') },
    errors: [403, 404],
  },
  'POST /policies/:number/rollback': {
    body: 'PolicyChange',
    params: NUMBERED,
    summary: 'Puts the policies of an earlier version in force.',
    answers: { 201: one('PolicyVersion') },
    errors: [403, 404, 409],
  },
  'GET /sources': {
    summary: 'Lists the sources of tools, and what is not well with tools.',
    answers: { 200: one('SourceReport') },
    errors: [403],
  },
  'POST /sources/:name/refresh': {
    summary: 'Asks a source for its tools now.',
    answers: { 200: all('Source') },
    errors: [403],
  },
  'GET /view-as/:actorId': {
    summary:
      'Shows the tools, runs and requests of another person as that person sees them, and why.',
    answers: { 200: one('ViewedActor') },
    errors: [403, 404],
  },
  'GET /audit': {
    query: object({
      /** The sequence of the first entry. */
      from: optional(
        says({ ...WHOLE, minimum: 1 }, { type: 'from must be the sequence of an entry' }),
      ),
    }),
    summary: 'Streams the audit of the tenant, from a sequence on.',
    answers: {
      200: { description: 'One entry in each line.', type: 'application/jsonl', schema: STREAMED },
    },
    errors: [403, 404],
  },
  'GET /audit/head': {
    summary: 'Shows the signed head of the audit.',
    answers: { 200: one('AuditHead') },
    errors: [403, 404],
  },
  'GET /health': {
    isOpen: true,
    summary: 'Answers while the process lives.',
    answers: { 200: one('Health') },
  },
  'GET /health/ready': {
    isOpen: true,
    summary: 'Tells a load balancer whether to send requests.',
    answers: { 200: one('Readiness'), 503: one('Readiness', 'Not now.') },
  },
} satisfies Readonly<Record<`${'GET' | 'POST' | 'DELETE'} /${string}`, Route>>;

/** An answer of a route: the media type and the form of what is in it, or nothing. */
export interface RouteAnswer<Value = unknown> {
  readonly description: string;
  readonly type?: string;
  readonly schema?: Form<Value>;
}

/** A route: what it takes and what it answers. */
export interface Route {
  readonly summary: string;
  /** The segments of its path that are no text. */
  readonly params?: Form;
  readonly query?: Form;
  /** The name of its body; or the schema of one that a reader of its protocol reads. */
  readonly body?: BodyName | FormSchema;
  /** Drops the members that its query or its body does not name, and refuses none of them. */
  readonly dropsOthers?: boolean;
  readonly headers?: readonly string[];
  /** The answers by their status. */
  readonly answers: Readonly<Record<number, RouteAnswer>>;
  /** The statuses of errors beside those that every route has. */
  readonly errors?: readonly number[];
  /** The form of its errors. @default 'Error' */
  readonly error?: AnswerName;
  /** Asks no one who they are. */
  readonly isOpen?: boolean;
}

function one<Name extends AnswerName>(
  of: Name,
  description = 'The answer.',
): RouteAnswer<AnswerNamed<Name>> {
  return { description, type: JSON_TYPE, schema: ref(of) };
}

function all<Name extends AnswerName>(
  of: Name,
  description = 'The answer.',
): RouteAnswer<readonly AnswerNamed<Name>[]> {
  return { description, type: JSON_TYPE, schema: list(ref<AnswerNamed<Name>>(of)) };
}

function either<One extends AnswerName, Other extends AnswerName>(
  of: One,
  other: Other,
): RouteAnswer<AnswerNamed<One> | AnswerNamed<Other>> {
  return { description: 'The answer.', type: JSON_TYPE, schema: { anyOf: [ref(of), ref(other)] } };
}

function listOf<Name extends AnswerName>(of: Name): RouteAnswer<readonly AnswerNamed<Name>[]> {
  return all(
    of,
    'A page. Where there is a next one, the header Link has its address as rel="next".',
  );
}

function stream(protocol: string, type = 'text/event-stream'): RouteAnswer<never> {
  return { description: `The stream of ${protocol}.`, type, schema: STREAMED };
}

function bodyOf(protocol: string, required: readonly string[]): FormSchema {
  return {
    type: 'object',
    description: `The request of a client of ${protocol}.`,
    required,
    additionalProperties: true,
  };
}

/** The method and the path of a route, such as `GET /runs/:runId`. */
export type RouteKey = keyof typeof ROUTES;

type Member<Key extends RouteKey, Name extends keyof Route> =
  (typeof ROUTES)[Key] extends Readonly<Record<Name, infer Value>> ? Value : undefined;

type Named<Path> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | Named<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;

type ParamsOf<Key extends RouteKey> =
  Member<Key, 'params'> extends Form
    ? ValueOf<Member<Key, 'params'>>
    : { readonly [Name in Named<Key>]: string };

type QueryOf<Key extends RouteKey> =
  Member<Key, 'query'> extends Form ? ValueOf<Member<Key, 'query'>> : unknown;

type BodyOf<Key extends RouteKey> =
  Member<Key, 'body'> extends BodyName ? ValueOf<(typeof BODIES)[Member<Key, 'body'>]> : unknown;

/** A route that answers with a value, and with no stream. */
export type AnsweredKey = {
  [Key in RouteKey]: [AnswerOf<Key>] extends [never] ? never : Key;
}[RouteKey];

/**
 * The values that a request of a route has: the segments of its path by their names, and the
 * members of its query and of its body.
 */
export type Asks<Key extends RouteKey> = Flat<ParamsOf<Key> & QueryOf<Key> & BodyOf<Key>>;

/** The value that a route answers with; never for a stream. */
export type AnswerOf<Key extends RouteKey> = {
  [
    Status in keyof (typeof ROUTES)[Key]['answers']
  ]: (typeof ROUTES)[Key]['answers'][Status] extends RouteAnswer<infer Value> ? Value : never;
}[keyof (typeof ROUTES)[Key]['answers']];
