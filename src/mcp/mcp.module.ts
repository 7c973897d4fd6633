import { fileURLToPath } from 'node:url';
import { Injectable, Module } from '@nestjs/common';
import { ConnectionBroker, type Credential, type ToolCallContext } from '@toolloop/core';
import {
  McpClientModule,
  type McpPrincipal,
  type McpServer,
  McpServerModule,
  type McpServerOptions,
  type McpSessionTerms,
} from '@toolloop/mcp';
import { principalOf, User, userOfToken, userOfWord } from '../identity/user.js';
import { termsFor } from '../policy.js';
import { SETTINGS, SettingsModule, type Settings } from '../settings.js';

const LOOPBACK = ['localhost', '127.0.0.1', '[::1]'];

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * The servers of others whose tools the desk imports, by name: a carrier, whose process starts with
 * the first call. `toolloop mcp` reads them from here.
 */
export const servers: Readonly<Record<string, McpServer>> = {
  carrier: {
    command: 'node',
    args: ['examples/carrier/server.mjs'],
    cwd: ROOT,
    tools: ['track_shipment'],
    connectionId: 'carrier',
    tokenEnv: 'CARRIER_TOKEN',
  },
};

/** Hands out each tenant's own account with the carrier. */
@Injectable()
export class CarrierAccounts extends ConnectionBroker {
  override resolve(connectionId: string, { tenant }: ToolCallContext): Promise<Credential> {
    return Promise.resolve({ connectionId, token: `carrier-account-${tenant}` });
  }
}

/**
 * The desk's tools for MCP clients, at `/mcp` and `/mcp/:scope`, and the tools of others for the
 * desk. A client has the rights of the user whose token it sends, and no more.
 */
@Module({
  imports: [
    McpClientModule.forRoot({ servers, pins: `${ROOT}/src/mcp.pins.json` }),
    McpServerModule.forRootAsync({
      path: 'mcp',
      imports: [SettingsModule],
      inject: [SETTINGS],
      useFactory: ({ allowedHosts, allowedOrigins }: Settings): McpServerOptions => ({
        name: 'order-desk',
        version: '1.0.0',
        instructions:
          'Customers, orders, carts and refunds of an order desk. Find a customer or an order first: its own tools appear then.',
        verifier: { verify: (token) => principal(userOfToken(token)) },
        session: termsOf,
        // A token is what a client has, and what a manager says at the desk is not in it.
        approver: ({ credential = '' }) => principal(userOfWord(credential)),
        hosts: [...LOOPBACK, ...allowedHosts.map((host) => new URL(`http://${host}`).hostname)],
        origins: [...LOOPBACK, ...allowedOrigins.map((origin) => new URL(origin).hostname)],
      }),
    }),
  ],
})
export class McpModule {}

function principal(user: User | undefined): McpPrincipal | undefined {
  return user && principalOf(user);
}

function termsOf({ actor }: McpPrincipal): McpSessionTerms {
  const { policy } = actor instanceof User ? termsFor(actor) : {};
  return policy ? { policy } : {};
}
