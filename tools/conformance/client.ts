/* oxlint-disable typescript/no-deprecated -- the suite does not say before which issuer it has */
/**
 * The client under test: the sessions of our source of tools over MCP, in one scenario of the suite,
 * which appends the address of its server.
 */
import {
  auth,
  ClientCredentialsProvider,
  type OAuthClientInformationMixed,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
  PrivateKeyJwtProvider,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { isRecord, type JsonObject } from '@toolloop/protocol';
import { BoundedFetch } from '../../libs/mcp/src/client/bounded-fetch.js';
import { McpSession, type SessionSettings } from '../../libs/mcp/src/client/mcp-session.js';
import { type McpHttpServer, namedServer } from '../../libs/mcp/src/client/server-options.js';

const scenario = process.env['MCP_CONFORMANCE_SCENARIO'] ?? '';
const given: unknown = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}');
const context = isRecord(given) ? given : {};
const url = process.argv.at(-1) ?? '';
const MOST_ATTEMPTS = 3;
const REDIRECT = 'http://localhost:3000/callback';
const said = (name: string): string => (typeof context[name] === 'string' ? context[name] : '');

/**
 * A person who consents to everything, in a browser that is sent back with a code. Its
 * authorization server is found anew after each refusal.
 */
class Consenting implements OAuthClientProvider {
  readonly clientMetadataUrl = 'https://conformance-test.local/client-metadata.json';
  readonly redirectUrl = REDIRECT;
  readonly clientMetadata = {
    client_name: 'toolloop',
    redirect_uris: [REDIRECT],
    grant_types: ['authorization_code', 'refresh_token'],
  };
  /** What the browser came back with. */
  returned: URLSearchParams | undefined;
  found: OAuthDiscoveryState | undefined;
  private client: OAuthClientInformationMixed | undefined = said('client_id')
    ? { client_id: said('client_id'), client_secret: said('client_secret') }
    : undefined;
  private held: OAuthTokens | undefined;
  private verifier = '';

  clientInformation(): OAuthClientInformationMixed | undefined {
    return this.client;
  }
  saveClientInformation(client: OAuthClientInformationMixed): void {
    this.client = client;
  }
  tokens(): OAuthTokens | undefined {
    return this.held;
  }
  saveTokens(tokens: OAuthTokens): void {
    this.held = tokens;
  }
  saveCodeVerifier(verifier: string): void {
    this.verifier = verifier;
  }
  codeVerifier(): string {
    return this.verifier;
  }
  saveDiscoveryState(found: OAuthDiscoveryState): void {
    this.found = found;
  }
  discoveryState(): OAuthDiscoveryState | undefined {
    return this.returned && this.found;
  }
  async redirectToAuthorization(address: URL): Promise<void> {
    const response = await fetch(address, { redirect: 'manual' });
    this.returned = new URL(response.headers.get('location') ?? REDIRECT).searchParams;
  }
}

function providerFor(): OAuthClientProvider | undefined {
  const [clientId, scope] = [said('client_id'), 'mcp'];
  const options = { clientId, scope };
  if (scenario === 'auth/client-credentials-basic')
    return new ClientCredentialsProvider({ ...options, clientSecret: said('client_secret') });
  if (scenario === 'auth/client-credentials-jwt')
    return new PrivateKeyJwtProvider({
      ...options,
      privateKey: said('private_key_pem'),
      algorithm: said('signing_algorithm') || 'ES256',
    });
  return scenario.startsWith('auth/') ? new Consenting() : undefined;
}

const authProvider = providerFor();
const server: McpHttpServer = {
  url,
  tools: [],
  isPrivate: true,
  hasHeaderArguments: true,
  limits: { connectMs: 120_000 }, // all scenarios run at once
  ...(authProvider && {
    authProvider,
    egress: {
      allowPrivateAddresses: true,
      ports: Array.from({ length: 65_536 }, (_, port) => port),
    },
  }),
};
// Imported servers are told of no capability; what a client answers to questions is tested
// nevertheless.
const settings: SessionSettings =
  scenario.includes('elicitation') || scenario.includes('sep-2322')
    ? {
        capabilities: { elicitation: { form: { applyDefaults: true } } },
        inputRequired: { autoFulfill: true },
        prepare: (client) =>
          client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: {} })),
      }
    : {};
const use = { fail: (error: Error): never => { throw error; } }; // prettier-ignore
const signal = AbortSignal.timeout(200_000);

async function work(session: McpSession): Promise<void> {
  const { tools } = await session.list(use, signal);
  const wanted = Array.isArray(context['toolCalls'])
    ? context['toolCalls']
    : [...tools]
        .flatMap(([name, tool]) => ('definition' in tool ? [name] : []))
        .map((name) => ({ name, arguments: argumentsFor(name) }));
  for (const { name, arguments: args = {} } of wanted.filter(isCall)) {
    const tool = tools.get(name);
    const deadline = new Date(Date.now() + 200_000);
    if (tool && 'definition' in tool)
      await session
        .call(tool.definition, args, { signal, deadline, progress: () => undefined, use })
        .catch(unlessUnauthorized);
  }
}

function isCall(
  value: unknown,
): value is { readonly name: string; readonly arguments?: JsonObject } {
  return isRecord(value) && typeof value['name'] === 'string';
}

/** A server may answer a call with an error; that it asks for consent is for the next attempt. */
function unlessUnauthorized(error: unknown): void {
  if (error instanceof UnauthorizedError) throw error;
  process.stderr.write(`${String(error)}\n`);
}

const argumentsFor = (name: string): JsonObject => (name === 'add_numbers' ? { a: 5, b: 3 } : {});

/**
 * Ends a consent with the code that the browser brought, through the network that the session has.
 */
async function consent(provider: Consenting): Promise<void> {
  const { returned, found } = provider;
  if (!returned) throw new Error('The browser came back with nothing.');
  const network = new BoundedFetch(server, 1_048_576);
  const iss = returned.get('iss');
  await auth(provider, {
    serverUrl: url,
    authorizationCode: returned.get('code') ?? '',
    ...(iss !== null && { iss }),
    ...(found?.resourceMetadataUrl !== undefined && {
      resourceMetadataUrl: new URL(found.resourceMetadataUrl),
    }),
    fetchFn: network.fetch,
  }).finally(() => void network.close());
  provider.returned = undefined;
}

for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt += 1) {
  let session: McpSession | undefined;
  try {
    session = await McpSession.open(namedServer('conformance', server), {
      use,
      signal,
      onChange: () => undefined,
      settings,
    });

    await work(session);
    break;
  } catch (error) {
    if (
      !(error instanceof UnauthorizedError) ||
      !(authProvider instanceof Consenting) ||
      attempt === MOST_ATTEMPTS
    )
      throw error;
    await consent(authProvider);
  } finally {
    await session?.close();
  }
}
