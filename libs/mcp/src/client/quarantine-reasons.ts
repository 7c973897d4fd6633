import { hasHeaderArguments } from './header-arguments.js';
import type { Problem } from './offered-tools.js';
import type { McpServer, NamedServer } from './server-options.js';
import type { ToolDefinition } from './tool-pins.js';

export function cutList({ limits: { pages } }: NamedServer): Problem {
  return {
    problem: `The list of its server has more than ${pages} pages, and what is behind them is not read.`,
    remedy: 'Raise limits.pages of the server.',
  };
}

const SAFE_NAME = /^[a-zA-Z0-9_-]+$/;
const LONGEST_ID = 64;
const PIN = 'Read it with "toolloop mcp diff", then pin it with "toolloop mcp pin".';

export function nameProblem(shown: string, id: string): Problem | undefined {
  if (SAFE_NAME.test(shown) && id.length <= LONGEST_ID) return undefined;
  return {
    problem: 'Its name does not fit into an id.',
    remedy: "Give it another one: { name: 'repos.list', as: 'repos_list' }.",
  };
}

export function headerProblem(
  { inputSchema }: ToolDefinition,
  options: McpServer,
): Problem | undefined {
  const isAllowed = 'hasHeaderArguments' in options && options.hasHeaderArguments === true;
  if (isAllowed || !hasHeaderArguments(inputSchema)) return undefined;
  return {
    problem: 'It copies arguments into headers of the request.',
    remedy: 'Set hasHeaderArguments for its server, if that may be.',
  };
}

export function unpinned(tool: string): Problem {
  return { problem: `The tool "${tool}" has no pin, so that it was read by no one.`, remedy: PIN };
}

export function gone(tool: string): Problem {
  return {
    problem: `The server does not offer the tool "${tool}" any more.`,
    remedy: 'Leave it out, or have the server bring it back.',
  };
}

export function movedAway(pinned: string, configured: string): Problem {
  return {
    problem: `It was pinned at ${pinned}, and the server is now ${configured}.`,
    remedy: PIN,
  };
}

export function changed(hash: string): Problem {
  return { problem: `Its definition is not the pinned one: its hash is ${hash}.`, remedy: PIN };
}
