// Sampling and roots are deprecated by the protocol, and clients that have them are still to be
// asked.
/* oxlint-disable typescript/no-deprecated -- see above */
import {
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type CreateMessageRequestParams,
  inputRequired,
  type InputRequest,
  inputResponse,
  type InputResponseView,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { PendingViewOf } from '@toolloop/core/loop';
import type { Question } from '@toolloop/core/contracts';
import {
  type ApprovalRequest,
  isRecord,
  type PendingReply,
  type QuestionRequest,
} from '@toolloop/protocol';

/** A request of a call that waits, and that a client may be able to have answered. */
export type OpenRequest = PendingViewOf<'approval'> | PendingViewOf<'question'>;

/**
 * The kinds of requests that a client takes from a server: questions to its user, and to its model.
 */
export interface ClientAbilities {
  readonly form: boolean;
  readonly url: boolean;
  readonly sampling: boolean;
  readonly roots: boolean;
}

/**
 * Reads what a client has declared: when its session began in the era of 2025, with each request in
 * that of 2026. A client that says nothing of the kinds of its questions has forms.
 */
export function abilitiesOf(
  server: Server,
  { mcpReq: { envelope } }: ServerContext,
): ClientAbilities {
  const declared: unknown =
    server.getClientCapabilities() ??
    (envelope && Reflect.get(envelope, CLIENT_CAPABILITIES_META_KEY));
  const { elicitation, sampling, roots } = isRecord(declared) ? declared : {};
  const { form, url } = isRecord(elicitation) ? elicitation : {};
  return {
    form: form !== undefined || (elicitation !== undefined && url === undefined),
    url: url !== undefined,
    sampling: sampling !== undefined,
    roots: roots !== undefined,
  };
}

/** A question to the model of an MCP client. */
export interface ModelQuestion {
  /** Names the question in its call. */
  readonly key: string;
  /** The words that the model reads, 1,000 characters at most. */
  readonly prompt: string;
  readonly systemPrompt?: string;
  /** The most tokens of the answer. */
  readonly maxTokens: number;
}

/**
 * Makes a question that the model of the MCP client answers with a text (`sampling/createMessage`),
 * in the client's name and at its cost. In the application's own inbox it is a question to a
 * person. The protocol has deprecated it: ask a model of your own where you can. A client that has
 * no model for others gets the error for a missing capability.
 *
 * @example
 * const summary = await context.ask(
 *   clientModel({ key: 'summary', prompt: `Summarise: ${text}`, maxTokens: 200 }),
 * );
 */
export function clientModel({ key, prompt, systemPrompt, maxTokens }: ModelQuestion): Question {
  const params: CreateMessageRequestParams = {
    messages: [{ role: 'user', content: { type: 'text', text: prompt } }],
    maxTokens,
    ...(systemPrompt !== undefined && { systemPrompt }),
  };
  return {
    key,
    question: prompt,
    schema: asOfClient({ method: 'sampling/createMessage', params }),
  };
}

/**
 * Makes a question that the MCP client answers with the addresses of its roots, one a line
 * (`roots/list`). The protocol has deprecated it: have a path given as an argument where you can.
 *
 * @example
 * const roots = await context.ask(clientRoots({ key: 'roots' }));
 * const folders = typeof roots === 'string' ? roots.split('\n') : [];
 */
export function clientRoots({ key }: Pick<ModelQuestion, 'key'>): Question {
  return {
    key,
    question: 'Which folders may be worked in? One address a line.',
    schema: asOfClient({ method: 'roots/list' }),
  };
}

/**
 * The keyword of a question's schema that says which request of the protocol stands for it. A
 * keyword travels with the question, so that any process can ask it.
 */
const KEYWORD = 'x-mcp-request';

type QuestionSchema = QuestionRequest['schema'];

type ClientRequest =
  | { readonly method: 'sampling/createMessage'; readonly params: CreateMessageRequestParams }
  | { readonly method: 'roots/list' };

function asOfClient(request: ClientRequest): QuestionSchema {
  return Object.assign({ type: 'string' } as const, { [KEYWORD]: request });
}

function requestIn(schema: QuestionSchema): ClientRequest | undefined {
  const request: unknown = Reflect.get(schema, KEYWORD);
  return isRecord(request) && isClientRequest(request) ? request : undefined;
}

function isClientRequest(
  request: Readonly<Record<string, unknown>>,
): request is ClientRequest & Record<string, unknown> {
  return (
    request['method'] === 'roots/list' ||
    (request['method'] === 'sampling/createMessage' && isRecord(request['params']))
  );
}

/**
 * Returns the capability that a client needs for a question of the protocol's own, and does not
 * have.
 */
export function missingFor(
  { kind, request }: OpenRequest,
  { sampling, roots }: ClientAbilities,
): ClientCapabilities | undefined {
  const asked = kind === 'question' ? requestIn(request.schema) : undefined;
  if (asked?.method === 'sampling/createMessage') return sampling ? undefined : { sampling: {} };
  return asked && !roots ? { roots: {} } : undefined;
}

/** The name under which a client gets a request, and gives its answer back. */
export function keyOf({ kind, request }: OpenRequest): string {
  return kind === 'question' ? request.key : 'approval';
}

/**
 * Returns a question in the form in which a client puts it to its user, or its model; undefined
 * where it can do neither.
 */
export function questionInput(
  { schema, question }: QuestionRequest,
  { form, sampling, roots }: ClientAbilities,
): InputRequest | undefined {
  const asked = requestIn(schema);
  if (asked?.method === 'sampling/createMessage')
    return sampling ? inputRequired.createMessage(asked.params) : undefined;
  if (asked) return roots ? inputRequired.listRoots() : undefined;
  return form ? inputRequired.elicit(formOf(question, schema)) : undefined;
}

type Form = Parameters<typeof inputRequired.elicit>[0];

/** The argument of a form that has the answer where a question asks for one value. */
const ANSWER = 'answer';

function formOf(message: string, schema: QuestionSchema): Form {
  const { properties = {}, required } = schema;
  const fields = schema.type === 'object' ? properties : { [ANSWER]: schema };
  const needed = schema.type === 'object' ? required : [ANSWER];
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the fields of a question are those that the protocol has: core refuses any other
  const requestedSchema = {
    type: 'object',
    properties: fields,
    ...(needed && { required: needed }),
  } as Form['requestedSchema'];
  return { mode: 'form', message, requestedSchema };
}

/** Returns the form in which a person in front of the client approves a call. */
export function approvalForm({
  tool,
  args,
  reason,
  presentation,
  preview,
  changed,
}: ApprovalRequest): InputRequest {
  const question = presentation?.confirm ?? `Allow ${presentation?.label ?? tool}?`;
  const differences = changed
    ? [`The tool has changed since this was asked before: ${JSON.stringify(changed)}`]
    : [];
  const shown = [
    question,
    reason,
    JSON.stringify(args),
    ...(preview ? [JSON.stringify(preview)] : []),
    ...differences,
  ];
  return inputRequired.elicit({
    mode: 'form',
    message: shown.join('\n'),
    requestedSchema: {
      type: 'object',
      properties: { approve: { type: 'boolean', title: 'Approve this call' } },
      required: ['approve'],
    },
  });
}

/**
 * An answer of a client: what it says to the request; `'open'` where its user has left that open.
 */
export type ClientAnswer = PendingReply | 'open';

/**
 * Reads the answer of a client to one request; undefined where it gave none. Anything but a clear
 * yes to an approval is a no.
 */
export function answerIn(
  open: OpenRequest,
  responses: Readonly<Record<string, unknown>> | undefined,
): ClientAnswer | undefined {
  const response = inputResponse(responses, keyOf(open));
  if (response.kind === 'missing') return undefined;
  if (response.kind === 'elicit' && response.action === 'cancel') return 'open';
  if (open.kind === 'question') return answerTo(open.request, response);
  const isApproved =
    response.kind === 'elicit' &&
    response.action === 'accept' &&
    response.content?.['approve'] === true;
  return { approvalId: open.id, decision: isApproved ? 'approve' : 'deny' };
}

function answerTo(
  question: QuestionRequest,
  response: InputResponseView,
): ClientAnswer | undefined {
  const { questionId } = question;
  const method = requestIn(question.schema)?.method;
  if (response.kind === 'sampling' && method === 'sampling/createMessage')
    return { questionId, answer: textOf(response.result) };
  if (response.kind === 'roots' && method === 'roots/list')
    return { questionId, answer: response.roots.map(({ uri }) => uri).join('\n') };
  return response.kind === 'elicit' && method === undefined
    ? answerInForm(question, response)
    : undefined;
}

function textOf({ content }: Extract<InputResponseView, { kind: 'sampling' }>['result']): string {
  return [content]
    .flat()
    .flatMap((block) => (block.type === 'text' ? block.text : []))
    .join('\n');
}

function answerInForm(
  { questionId, schema }: QuestionRequest,
  { action, content }: Extract<InputResponseView, { kind: 'elicit' }>,
): PendingReply {
  if (action === 'decline') return { questionId, decision: 'deny' };
  const fields = content ?? {};
  const answer = schema.type === 'object' ? fields : fields[ANSWER];
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- any JSON; the schema checks it
  return { questionId, answer: (answer ?? null) as Answer };
}

type Answer = NonNullable<Extract<PendingReply, { answer: unknown }>['answer']>;
