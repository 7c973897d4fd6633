import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { AgentModule } from '../../examples/mcp-agent/mcp-agent.js';

describe('the agent behind MCP', () => {
  let app: INestApplication;
  const client = new Client(
    { name: 'spec', version: '1' },
    { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  );
  beforeAll(async () => {
    app = (
      await Test.createTestingModule({ imports: [AgentModule] }).compile()
    ).createNestApplication();
    app.useLogger(false);
    await app.listen(0, '127.0.0.1');
    const headers = { authorization: 'Bearer dev' };
    await client.connect(
      new StreamableHTTPClientTransport(new URL('/mcp', await app.getUrl()), {
        requestInit: { headers },
      }),
    );
  });
  afterAll(async () => {
    await client.close();
    await app.close();
  });

  it('answers a question by a run of its own', async () => {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['library__findShelf', 'librarian__ask']);
    const { content } = await client.callTool({
      name: 'librarian__ask',
      arguments: { prompt: 'Find the shelf of Dune' },
    });
    expect(JSON.stringify(content)).toContain('B 12');
  });
});
