import {
  All,
  ConfigurableModuleBuilder,
  Controller,
  Get,
  Header,
  Module,
  NotFoundException,
  Req,
  Res,
  type Type,
} from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { DevTools } from './dev-tools.js';
import type { Exchange } from './http-requests.js';
import { MCP_SERVER_OPTIONS, McpEndpoint } from './mcp-endpoint.js';
import type { McpServerOptions } from './server-options.js';

/** The options of `forRoot` that decide what Nest sets up. */
export interface McpServerExtras {
  /**
   * The path of the server. With a scope behind it, it serves the sessions of that scope:
   * `/mcp/desk`. @default 'mcp'
   */
  readonly path?: string;
  /**
   * Serves tools for the developers of the application, at the path with `-dev` behind it:
   * `/mcp-dev`. They are for operators whom `forRoot({ operators })` permits `devTools`, and answer
   * on loopback alone; with `NODE_ENV=production` the application does not start. @default false
   */
  readonly devTools?: boolean;
}

/** The names here are left out of the options that Nest's builder hands on. */
const EXTRAS = { path: 'mcp', devTools: false };

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<McpServerOptions>({
  optionsInjectionToken: MCP_SERVER_OPTIONS,
})
  .setClassMethodName('forRoot')
  .setExtras<McpServerExtras>(
    EXTRAS,
    (definition, { path = EXTRAS.path, devTools = EXTRAS.devTools }) => ({
      ...definition,
      providers: [...(definition.providers ?? []), ...(devTools ? [DevTools] : [])],
      controllers: controllersAt(path.replace(/^\/+|\/+$/g, ''), devTools),
    }),
  )
  .build();

/**
 * Serves the tools of the application to MCP clients, at one path in both eras of the protocol.
 * Import it beside `ToolLoopModule.forRoot`.
 *
 * @example
 * McpServerModule.forRoot({
 *   path: 'mcp',
 *   verifier: { verify: (token) => users.principalOf(token) },
 * });
 */
@Module({ imports: [DiscoveryModule], providers: [McpEndpoint], exports: [McpEndpoint] })
export class McpServerModule extends ConfigurableModuleClass {}

/** A request of Express or Fastify. */
interface AnyRequest {
  readonly raw?: IncomingMessage;
  readonly body?: unknown;
  readonly params: Readonly<Record<string, string>>;
}

/** A response of Express or a reply of Fastify. */
interface AnyResponse {
  readonly raw?: ServerResponse;
  readonly hijack?: () => void;
}

/** Takes an answer over from Fastify, which would end it by itself. */
function exchangeOf(
  request: AnyRequest & IncomingMessage,
  response: AnyResponse & ServerResponse,
): Exchange {
  response.hijack?.();
  return {
    request: request.raw ?? request,
    response: response.raw ?? response,
    body: request.body,
  };
}

function controllersAt(path: string, devTools: boolean): Type[] {
  @Controller(path)
  class McpController {
    constructor(private readonly endpoint: McpEndpoint) {}

    @All(['', ':scope'])
    async handle(
      @Req() request: AnyRequest & IncomingMessage,
      @Res() response: AnyResponse & ServerResponse,
    ): Promise<void> {
      await this.endpoint.handle(exchangeOf(request, response), request.params['scope']);
    }

    @All('approve/:approvalId')
    async approve(
      @Req() request: AnyRequest & IncomingMessage,
      @Res() response: AnyResponse & ServerResponse,
    ): Promise<void> {
      await this.endpoint.approve(
        exchangeOf(request, response),
        request.params['approvalId'] ?? '',
      );
    }
  }

  // Clients look for it below the root, with the path of the server behind it.
  @Controller(`.well-known/oauth-protected-resource/${path}`)
  class McpMetadataController {
    constructor(private readonly endpoint: McpEndpoint) {}

    @Get()
    @Header('access-control-allow-origin', '*')
    @Header('cache-control', 'max-age=3600')
    metadata(): Readonly<Record<string, unknown>> {
      const { metadata } = this.endpoint;
      if (metadata) return metadata;
      throw new NotFoundException('The server names no authorization server.');
    }
  }

  @Controller(`${path}-dev`)
  class McpDevController {
    constructor(private readonly tools: DevTools) {}

    @All()
    async handle(
      @Req() request: AnyRequest & IncomingMessage,
      @Res() response: AnyResponse & ServerResponse,
    ): Promise<void> {
      await this.tools.handle(exchangeOf(request, response));
    }
  }
  return [McpController, McpMetadataController, ...(devTools ? [McpDevController] : [])];
}
