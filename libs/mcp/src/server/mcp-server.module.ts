import { All, ConfigurableModuleBuilder, Controller, Get, Header, Module, NotFoundException, Req, Res, type Type } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { MCP_SERVER_OPTIONS, McpEndpoint } from './mcp-endpoint.js';
import type { McpServerOptions } from './server-options.js';

/** The options of `forRoot` that decide what Nest sets up. */
export interface McpServerExtras {
  /** The path of the server. With a scope behind it, it serves the sessions of that scope: `/mcp/desk`. @default 'mcp' */
  readonly path?: string;
}

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<McpServerOptions>({ optionsInjectionToken: MCP_SERVER_OPTIONS })
  .setClassMethodName('forRoot')
  .setExtras<McpServerExtras>({}, (definition, { path = 'mcp' }) => ({
    ...definition,
    controllers: controllersAt(path.replace(/^\/+|\/+$/g, '')),
  }))
  .build();

/**
 * Serves the tools of the application to MCP clients, at one path in both eras of the protocol. Import it beside `ToolLoopModule.forRoot`.
 *
 * @example
 * McpServerModule.forRoot({ path: 'mcp', verifier: { verify: (token) => users.principalOf(token) } })
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

function controllersAt(path: string): Type[] {
  @Controller(path)
  class McpController {
    constructor(private readonly endpoint: McpEndpoint) {}

    @All(['', ':scope'])
    async handle(@Req() request: AnyRequest & IncomingMessage, @Res() response: AnyResponse & ServerResponse): Promise<void> {
      response.hijack?.();
      const { body, params } = request;
      await this.endpoint.handle(request.raw ?? request, response.raw ?? response, { body, scope: params['scope'] });
    }

    @All('approve/:approvalId')
    async approve(@Req() request: AnyRequest & IncomingMessage, @Res() response: AnyResponse & ServerResponse): Promise<void> {
      response.hijack?.();
      const { body, params } = request;
      await this.endpoint.approve(request.raw ?? request, response.raw ?? response, { body, approvalId: params['approvalId'] ?? '' });
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
  return [McpController, McpMetadataController];
}
