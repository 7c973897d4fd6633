// McpServer, which is meant instead of Server, compiles the schemas of all tools for each request.
/* oxlint-disable typescript/no-deprecated -- see above */
import {
  ProtocolError,
  ProtocolErrorCode,
  Server,
  SUPPORTED_PROTOCOL_VERSIONS,
  type Tool,
} from '@modelcontextprotocol/server';
import { MODERN_REVISION } from './client-transports.js';
import { OFFER_CAPABILITIES, serveOffers } from './offer-server.js';
import { answered, callOf, isUnknown, type Serving } from './served-call.js';
import { failureIn, toWireResult } from './to-wire-result.js';
import { toWireTool } from './to-wire-tool.js';
import { isMade } from './waiting-calls.js';

/**
 * Makes a protocol server over one session: for one request in the era of 2026, for as long as the
 * client stays in that of 2025. It decides nothing: every listing and every call is the session's.
 */
export function toolServer(serving: Serving): Server {
  const { options, sessionOf, waiting, offers } = serving;
  const { name = 'toolloop', version = '0.0.0', instructions, names = {}, ui = {} } = options;
  const server = new Server(
    { name, version },
    {
      capabilities: {
        tools: { listChanged: true },
        logging: {},
        ...(offers.ids.size > 0 && OFFER_CAPABILITIES),
      },
      supportedProtocolVersions: REVISIONS,
      requestState: { verify: (state, context) => waiting.codec.verify(state, context) },
      ...(instructions !== undefined && { instructions }),
    },
  );
  server.setRequestHandler('tools/list', async () => {
    const session = await answered(sessionOf);
    const specs = await answered(() => session.list());
    const tools = specs.filter(({ declaredId }) => !offers.ids.has(declaredId));
    return {
      tools: tools.map((spec) =>
        named(
          withPage(toWireTool(session.describe(spec.id) ?? { spec }), ui[spec.declaredId]),
          names,
        ),
      ),
    };
  });
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    const { arguments: args } = params;
    const id = idOf(params.name, names);
    const session = await answered(sessionOf);
    const made = await callOf(server, serving, { session, id, args, context });
    if (!isMade(made)) return made;
    // In the same words whether policy hides it or there is none.
    if (isUnknown(made))
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        failureIn(made) ?? `Unknown tool: ${params.name}`,
      );
    const outputSchema = session.describe(id)?.spec.outputSchema;
    return server.projectCallToolResult(
      toWireResult(made, outputSchema),
      outputSchema && { ...outputSchema },
    );
  });
  if (offers.ids.size > 0) serveOffers(server, serving);
  return server;
}

/** Those of both eras; the SDK's list has those of the older one alone. */
const REVISIONS = [...SUPPORTED_PROTOCOL_VERSIONS, MODERN_REVISION];

/** Names the page that a client may show beside the results of a tool. */
function withPage(tool: Tool, resourceUri: string | undefined): Tool {
  return resourceUri === undefined ? tool : { ...tool, _meta: { ui: { resourceUri } } };
}

type ToolNames = NonNullable<Serving['options']['names']>;

function named(tool: Tool, names: ToolNames): Tool {
  const name = Object.hasOwn(names, tool.name) ? names[tool.name] : undefined;
  return name === undefined ? tool : { ...tool, name };
}

/** Finds the id of a tool by the name that clients know. */
function idOf(name: string, names: ToolNames): string {
  return Object.keys(names).find((id) => names[id] === name) ?? name;
}
