/**
 * An agent behind MCP: one of its tools is a run of its own, so that another's assistant hands over
 * a question and reads a summary, not ten tools and their results.
 *
 * `npm run example -- mcp-agent`
 */
import { Injectable, Module } from '@nestjs/common';
import { LlmTool, subRunTool, ToolLoopModule, ToolParam, ToolProvider } from '@toolloop/core';
import { McpServerModule, type McpVerifier } from '@toolloop/mcp';
import { offline } from '@toolloop/offline';
import { runIfMain, serve } from '../run.js';

@Injectable()
@ToolProvider({ namespace: 'library' })
class LibraryTools {
  @LlmTool({ description: 'The shelf of a book.', effect: 'read_only', reveal: 'all' })
  findShelf(@ToolParam('title', { description: 'The title of the book.' }) title: string): string {
    return title.toLowerCase() === 'dune' ? 'Shelf B 12' : 'We do not have it';
  }
}

const librarian = subRunTool({
  id: 'librarian__ask',
  description: 'Asks the librarian about books and shelves. Say everything that is needed.',
  tools: ['library__*'],
  effect: 'read_only',
  limits: { steps: 4 },
});

/** The tokens of the clients that may ask. */
const verifier: McpVerifier = {
  verify: (token) => (token === 'dev' ? { actor: { id: 'ann' }, tenant: 'acme' } : undefined),
};

@Module({
  imports: [
    ToolLoopModule.forRoot({
      model: offline(),
      tools: [librarian],
      policy: { allow: ['librarian__ask', 'library__*'] },
    }),
    McpServerModule.forRoot({ path: 'mcp', verifier }),
  ],
  providers: [LibraryTools],
})
export class AgentModule {}

await runIfMain(import.meta.url, () => serve(AgentModule));
