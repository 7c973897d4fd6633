// McpServer, which is meant instead of Server, compiles the schemas of all tools for each request.
/* oxlint-disable typescript/no-deprecated -- see above */
import { Logger } from '@toolloop/core/internal';
import {
  type CallToolResult,
  type CompleteRequestParams,
  type CompleteResult,
  type GetPromptResult,
  type InputRequiredResult,
  isInputRequiredResult,
  isSpecType,
  type Prompt,
  type PromptMessage,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  type Resource,
  ResourceNotFoundError,
  type ResourceTemplateType,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { ToolSession } from '@toolloop/core/contracts';
import { type ContentPart, isRecord } from '@toolloop/protocol';
import { isUi, nameOf, type Offer, TYPED } from './offers.js';
import { answered, callOf, isUnknown, type Serving } from './served-call.js';
import { failureIn, toBlock } from './to-wire-result.js';
import { type Answer, isMade, type MadeCall } from './waiting-calls.js';

/**
 * The capabilities of a server that has more than tools. Neither prompts nor resources come and go.
 */
export const OFFER_CAPABILITIES = { prompts: {}, resources: { subscribe: true }, completions: {} };

const logger = new Logger('McpServer');

/** The most values that the protocol lets a completion have. */
const MOST_VALUES = 100;
/** The most resources that one client watches. */
const MOST_WATCHED = 1_000;

/**
 * Answers for the prompts and the resources of a server. Each is listed for those whom policy
 * allows it, and used by a call of the session.
 */
export function serveOffers(server: Server, serving: Serving): void {
  servePrompts(server, serving);
  serveResources(server, serving);
  server.setRequestHandler('completion/complete', ({ params }, context) =>
    completed(server, serving, { params, context }),
  );
}

function servePrompts(server: Server, serving: Serving): void {
  const { offers } = serving;
  server.setRequestHandler('prompts/list', async () => {
    const session = await listed(serving);
    return { prompts: [...offers.prompts.values()].flatMap((offer) => toPrompt(offer, session)) };
  });
  server.setRequestHandler('prompts/get', async ({ params }, context) => {
    const offer = offers.prompts.get(params.name);
    const unknown = (): ProtocolError =>
      new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown prompt: ${params.name}`);
    if (!offer) throw unknown();
    const session = await answered(serving.sessionOf);
    const made = used(
      await callOf(server, serving, {
        session,
        id: offer.declaredId,
        args: params.arguments,
        context,
      }),
      unknown,
    );
    return isMade(made) ? toPromptResult(made, offer) : made;
  });
}

function serveResources(server: Server, serving: Serving): void {
  const { offers, watched } = serving;
  server.setRequestHandler('resources/list', async () => {
    const session = await listed(serving);
    return {
      resources: offers.resources.flatMap((offer) =>
        offers.isTemplate(offer) ? [] : toResource(offer, session),
      ),
    };
  });
  server.setRequestHandler('resources/templates/list', async () => {
    const session = await listed(serving);
    return {
      resourceTemplates: offers.resources.flatMap((offer) =>
        offers.isTemplate(offer) ? toTemplate(offer, session) : [],
      ),
    };
  });
  server.setRequestHandler('resources/read', async ({ params: { uri } }, context) => {
    const unknown = (): ProtocolError => new ResourceNotFoundError(uri);
    const found = offers.resourceAt(uri);
    if (!found) throw unknown();
    const session = await answered(serving.sessionOf);
    const made = used(
      await callOf(server, serving, {
        session,
        id: found.offer.declaredId,
        args: found.args,
        context,
      }),
      unknown,
    );
    return isMade(made) ? toReadResult(uri, made, found.offer) : made;
  });
  server.setRequestHandler('resources/subscribe', async ({ params: { uri } }) => {
    const found = offers.resourceAt(uri);
    if (!found || !specOf(found.offer, await listed(serving))) throw new ResourceNotFoundError(uri);
    if (watched.size >= MOST_WATCHED)
      throw new ProtocolError(
        ProtocolErrorCode.InvalidRequest,
        `You watch ${MOST_WATCHED} resources already.`,
      );
    watched.add(uri);
    return {};
  });
  server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
    watched.delete(uri);
    return {};
  });
}

/** Brings the session's tools up to date with what policy allows now. */
async function listed({ sessionOf }: Serving): Promise<ToolSession> {
  const session = await answered(sessionOf);
  await answered(() => session.list());
  return session;
}

function specOf({ declaredId }: Offer, session: ToolSession): ReturnType<ToolSession['describe']> {
  return session.describe(declaredId);
}

function toPrompt(offer: Offer<'prompt'>, session: ToolSession): Prompt[] {
  const { spec } = specOf(offer, session) ?? {};
  if (!spec) return [];
  const { properties = {}, required = [] } = spec.inputSchema;
  const args = Object.entries(properties).map(([name, property]) => {
    const { description } = typeof property === 'object' ? property : {};
    return Object.assign(
      { name, required: required.includes(name) },
      description !== undefined && { description },
    );
  });
  return [{ ...described(offer), ...(args.length > 0 && { arguments: args }) }];
}

function toResource(offer: Offer<'resource'>, session: ToolSession): Resource[] {
  return specOf(offer, session)
    ? [{ uri: offer.options.uri, ...described(offer), mimeType: typeOf(offer), ...metaOf(offer) }]
    : [];
}

function toTemplate(offer: Offer<'resource'>, session: ToolSession): ResourceTemplateType[] {
  return specOf(offer, session)
    ? [{ uriTemplate: offer.options.uri, ...described(offer), mimeType: typeOf(offer) }]
    : [];
}

function described(
  offer: Offer<'prompt' | 'resource'>,
): Pick<Prompt, 'name' | 'title' | 'description'> {
  const { title, description } = offer.options;
  return { name: nameOf(offer), ...(title !== undefined && { title }), description };
}

function typeOf({ options: { uri, mimeType, output } }: Offer<'resource'>): string {
  if (mimeType !== undefined) return mimeType;
  if (isUi(uri)) return 'text/html;profile=mcp-app';
  return output === undefined ? 'text/plain' : 'application/json';
}

/** The metadata of a page that clients show, by which they make its content security policy. */
function metaOf({ options: { uri, csp = {} } }: Offer<'resource'>): Pick<Resource, '_meta'> {
  return isUi(uri) ? { _meta: { ui: { csp } } } : {};
}

/**
 * Returns a call that gave something, or what has to happen first.
 *
 * @throws {ProtocolError} For one that gave nothing: requests but those of tools have no other way
 *   to say it.
 */
function used(made: Answer, unknown: () => ProtocolError): MadeCall | InputRequiredResult {
  if (!isMade(made)) {
    if (isInputRequiredResult(made)) return made;
    throw new ProtocolError(
      ProtocolErrorCode.InvalidRequest,
      textIn(made),
      Reflect.get(made, '_meta'),
    );
  }
  if (isUnknown(made)) throw unknown();
  const { status, error } = made.record;
  if (status === 'succeeded') return made;
  const isTheirs = error?.code === 'invalid_args' || error?.code === 'tenant_override';
  const code = isTheirs ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError;
  throw new ProtocolError(code, failureIn(made) ?? 'It could not be read.');
}

function textIn({ content }: CallToolResult): string {
  return content.flatMap((block) => (block.type === 'text' ? block.text : [])).join('\n');
}

/** Splits a result into its value, as text, and the files beside it. */
function partsOf({ content = '' }: MadeCall): {
  readonly text: string;
  readonly files: readonly Exclude<ContentPart, { type: 'text' }>[];
} {
  const parts: readonly ContentPart[] =
    typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return {
    text: parts.flatMap((part) => (part.type === 'text' ? part.text : [])).join('\n'),
    files: parts.flatMap((part) => (part.type === 'text' ? [] : part)),
  };
}

function toPromptResult(
  made: MadeCall,
  { options: { description }, at }: Offer<'prompt'>,
): GetPromptResult {
  const { text, files } = partsOf(made);
  const turns = turnsIn(text, made.record.result);
  if (!turns) {
    logger.error(
      `${at} returned neither a text nor a list of { role, content } that fits into a result.`,
    );
    throw new ProtocolError(ProtocolErrorCode.InternalError, 'The prompt could not be made.');
  }
  const shown = files.map((file): PromptMessage => ({ role: 'user', content: toBlock(file) }));
  return { description, messages: [...turns, ...shown] };
}

/** Reads the messages of a prompt; undefined for a result that has none, or was cut. */
function turnsIn(text: string, result: unknown): PromptMessage[] | undefined {
  if (typeof result === 'string') return [{ role: 'user', content: { type: 'text', text } }];
  const turns = jsonIn(text);
  if (!Array.isArray(turns)) return undefined;
  const messages = turns.map((turn: unknown) => {
    const { role, content } = isRecord(turn) ? turn : {};
    return {
      role,
      content: typeof content === 'string' ? { type: 'text', text: content } : content,
    };
  });
  return messages.every((message) => isSpecType.PromptMessage(message)) ? messages : undefined;
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @throws {ResourceNotFoundError} Where the method returned `null` and no file. */
function toReadResult(uri: string, made: MadeCall, offer: Offer<'resource'>): ReadResourceResult {
  const { text, files } = partsOf(made);
  const isNothing = made.record.result === undefined || made.record.result === null;
  if (isNothing && files.length === 0) throw new ResourceNotFoundError(uri);
  const contents = files.map((file) => {
    const block = toBlock(file);
    if (block.type === 'image' || block.type === 'audio')
      return { uri, mimeType: block.mimeType, blob: block.data };
    if (block.type === 'resource' && 'blob' in block.resource)
      return { uri, mimeType: block.resource.mimeType, blob: block.resource.blob };
    return { uri, mimeType: 'text/uri-list', text: file.url };
  });
  return {
    contents: [
      ...(isNothing ? [] : [{ uri, mimeType: typeOf(offer), text, ...metaOf(offer) }]),
      ...contents,
    ],
  };
}

interface Completing {
  readonly params: CompleteRequestParams;
  readonly context: ServerContext;
}

/** Completes an argument; with nothing where nothing completes it for this caller. */
async function completed(
  server: Server,
  serving: Serving,
  { params, context }: Completing,
): Promise<CompleteResult> {
  const { ref, argument, context: others } = params;
  const of = ref.type === 'ref/prompt' ? ref.name : ref.uri;
  const session = await listed(serving);
  const offer = completionOf({ of, argument: argument.name }, serving.offers, session);
  if (!offer) return { completion: { values: [] } };
  const taken = new Set(offer.parameters.map(({ name }) => name));
  const known = Object.entries(others?.arguments ?? {}).filter(
    ([name]) => taken.has(name) && name !== TYPED,
  );
  const args = { ...Object.fromEntries(known), [TYPED]: argument.value };
  const texts = textsOf(
    await callOf(server, serving, { session, id: offer.declaredId, args, context }),
  );
  return {
    completion: {
      values: texts.slice(0, MOST_VALUES),
      total: texts.length,
      hasMore: texts.length > MOST_VALUES,
    },
  };
}

/** @throws {ProtocolError} For a prompt or a resource that the session does not have. */
function completionOf(
  { of, argument }: Offer<'completion'>['options'],
  { prompts, resources, completions }: Serving['offers'],
  session: ToolSession,
): Offer<'completion'> | undefined {
  const target = prompts.get(of) ?? resources.find(({ options }) => options.uri === of);
  if (!target || !specOf(target, session))
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no ${of}.`);
  return completions.find(({ options }) => options.of === of && options.argument === argument);
}

function textsOf(made: Answer): readonly string[] {
  const values =
    isMade(made) && made.record.status === 'succeeded' ? jsonIn(partsOf(made).text) : [];
  return Array.isArray(values)
    ? values.filter((value): value is string => typeof value === 'string')
    : [];
}
