export { McpClientModule } from './client/mcp-client.module.js';
export { diffPins, listTools, pinTools } from './client/pin-commands.js';
export type { PinChange, PinCommand, ServerListing, ToolListing } from './client/pin-commands.js';
export { endpointOf } from './client/server-options.js';
export type {
  AllowedTool,
  McpClientOptions,
  McpHttpServer,
  McpLimits,
  McpServer,
  McpStdioServer,
} from './client/server-options.js';
export type { ToolDefinition } from './client/tool-pins.js';
export { McpServerModule } from './server/mcp-server.module.js';
export type { McpServerExtras } from './server/mcp-server.module.js';
export type {
  McpPrincipal,
  McpResource,
  McpServerOptions,
  McpSessionTerms,
  McpTracing,
  McpVerifier,
} from './server/server-options.js';
export { LlmCompletion, LlmPrompt, LlmResource } from './server/offer-decorators.js';
export type {
  LlmCompletionOptions,
  LlmPromptOptions,
  LlmResourceOptions,
  OfferOptions,
  PromptTurn,
  UiOrigins,
} from './server/offer-decorators.js';
export { McpEndpoint } from './server/mcp-endpoint.js';
export type { ResourceReaders } from './server/served-sessions.js';
export { clientModel, clientRoots } from './server/client-questions.js';
export type { ModelQuestion } from './server/client-questions.js';
export { serveMcpStdio } from './server/stdio.js';
export type { McpStdioConnection, McpStdioOptions } from './server/stdio.js';
