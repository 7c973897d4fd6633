/**
 * The server under test: decorated classes of Nest behind McpServerModule, as any application has
 * them. It prints its address.
 */
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { tool, ToolLoopModule } from '@toolloop/core';
import { McpServerModule } from '@toolloop/mcp';
import { ScriptedModel } from '@toolloop/testing';
import { TestOffers } from './offers.js';
import { AskingTools, ContentTools, RoundsTools } from './tools.js';

const tools = [ContentTools, AskingTools, RoundsTools];
/** The suite names tools without a namespace. */
const names = Object.fromEntries(
  tools.flatMap(({ prototype, name }) => {
    const namespace = name.replace('Tools', '').toLowerCase();
    return Object.getOwnPropertyNames(prototype).flatMap((method) =>
      method.startsWith('test_') ? [[`${namespace}__${method}`, method]] : [],
    );
  }),
);

const WITH_DEFINITIONS = 'json_schema_2020_12_tool';

/** A tool whose schema names its dialect, and has definitions. */
const withDefinitions = tool({
  id: WITH_DEFINITIONS,
  description: 'Takes a name and an address.',
  input: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
      address: {
        type: 'object',
        properties: { street: { type: 'string' }, city: { type: 'string' } },
      },
    },
    properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } },
    additionalProperties: false,
  },
  effect: 'read_only',
  reveal: 'all',
  execute: (input) => JSON.stringify(input),
});

@Module({
  imports: [
    ToolLoopModule.forRoot({
      model: new ScriptedModel([]),
      policy: {
        version: '1',
        flow: 'off',
        allow: ['content__*', 'asking__*', 'rounds__*', 'offers__*', WITH_DEFINITIONS],
      },
      tools: [withDefinitions],
      sessions: { perActor: 200 }, // its clients leave without a word
      limits: { callsPerTool: 10_000, identicalCalls: 10_000 },
    }),
    McpServerModule.forRoot({
      verifier: { verify: () => undefined },
      anonymous: { actor: { id: 'suite' }, tenant: 'conformance', isPerson: true },
      names,
    }),
  ],
  providers: [...tools, TestOffers],
})
class ConformanceModule {}

const app = await NestFactory.create(ConformanceModule, {
  logger: ['error'],
  forceCloseConnections: true,
});
app.enableShutdownHooks();
await app.listen(Number(process.env['PORT'] ?? 0), '127.0.0.1');
process.stdout.write(`${await app.getUrl()}/mcp\n`);
