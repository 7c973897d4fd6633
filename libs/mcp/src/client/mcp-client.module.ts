import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { AuditTrail } from '@toolloop/core/audit';
import { ConfigurationError } from '@toolloop/protocol';
import { DEFAULT_PINS, McpToolSource } from './mcp-tool-source.js';
import { clientFindings, type McpClientOptions } from './server-options.js';
import { PinFile } from './tool-pins.js';

/**
 * Imports tools of MCP servers: each server is an untrusted source of tools. Import it beside
 * `ToolLoopModule.forRoot`, and name the tools in the policy.
 *
 * @example
 * McpClientModule.forRoot({
 *   servers: {
 *     github: {
 *       url: 'https://mcp.example.com/',
 *       connectionId: 'github',
 *       tools: ['search_issues'],
 *     },
 *   },
 * });
 */
@Module({})
export class McpClientModule {
  /** @throws {ConfigurationError} For wrong options, all at once. */
  static forRoot(options: McpClientOptions): DynamicModule {
    const findings = clientFindings(options);
    if (findings.length > 0) throw new ConfigurationError(findings);
    const { servers, pins = DEFAULT_PINS, trace } = options;
    const sources = Object.entries(servers).map(([name, server]): Provider => ({
      provide: Symbol(`toolloop:mcp server ${name}`),
      inject: [PINS, { token: AuditTrail, optional: true }],
      useFactory: (file: PinFile, trail?: AuditTrail) =>
        new McpToolSource(name, server, {
          pins: file,
          ...(trail && { trail }),
          ...(trace && { trace }),
        }),
    }));
    return {
      module: McpClientModule,
      providers: [{ provide: PINS, useFactory: () => PinFile.read(pins) }, ...sources],
    };
  }
}

const PINS = Symbol('toolloop:mcp pins');
