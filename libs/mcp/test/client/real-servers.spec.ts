import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { isRecord } from '@toolloop/protocol';
import { importing, type StrangeTool, Stranger } from './strangers.js';

/**
 * The forms of the tools that servers of packages listed, each started without its service: names,
 * schemas and annotations. Texts are cut to the beginning of their first sentence. One server a
 * line.
 */
interface RealServer {
  readonly package: string;
  readonly version: string;
  readonly tools: readonly StrangeTool[];
}

const SERVERS = readFileSync('libs/mcp/test/client/real-servers.jsonl', 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as RealServer);

type Use = 'whole' | 'narrowed' | 'refused';

/** Imports all tools of a server, and tells how each can be used. */
async function usesOf({
  tools,
}: RealServer): Promise<readonly (readonly [tool: string, use: Use, why?: string])[]> {
  const stranger = await Stranger.serve([], '2026');
  stranger.answerTo('tools/list', (id) =>
    JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', tools } }),
  );
  const enabled = tools.map(({ name }, index) => ({ name, as: `t${index}` }));
  const { catalog, sources } = await importing({
    servers: { real: stranger.server({ tools: enabled }) },
  });
  const refused = new Map(
    sources.list().flatMap(({ quarantined }) => quarantined.map(({ id, reason }) => [id, reason])),
  );
  const findings: { readonly at: string; readonly problem: string }[] = [];
  catalog.findings$.subscribe((list) => findings.splice(0, findings.length, ...list));
  return tools.map(({ name }, index) => {
    const id = `mcp__real__t${index}`;
    const reason = refused.get(id);
    if (reason !== undefined) return [name, 'refused', reason];
    expect([id, problemsFor(catalog.describe(id).inputSchema)]).toEqual([id, []]);
    const lost = findings.find(({ at }) => at.endsWith(id));
    return lost ? [name, 'narrowed', lost.problem] : [name, 'whole'];
  });
}

/** What a provider would refuse in the schema of a tool. */
function problemsFor(schema: unknown): readonly string[] {
  const whole = isRecord(schema) ? schema : {};
  const text = JSON.stringify(schema);
  return [
    ...(whole['type'] === 'object' && isRecord(whole['properties'])
      ? []
      : ['is no object with properties']),
    ...['anyOf', 'oneOf', 'allOf', 'not'].filter((keyword) => text.includes(`"${keyword}":`)),
  ];
}

describe('the tools of servers that people use', () => {
  it('are usable, nearly all of them whole', async () => {
    const counts = { whole: 0, narrowed: 0, refused: 0 };
    const lines: string[] = [];
    for (const server of SERVERS) {
      const uses = await usesOf(server);
      const odd = uses
        .filter(([, use]) => use !== 'whole')
        .map(([tool, use, why]) => `${tool} ${use}${why === undefined ? '' : `: ${why}`}`);
      for (const [, use] of uses) counts[use] += 1;
      lines.push(
        `${server.package} ${server.version}: ${uses.length} tools${odd.length > 0 ? `; ${odd.join('; ')}` : ''}`,
      );
    }
    const all = counts.whole + counts.narrowed + counts.refused;
    const share = (count: number): string => `${count} (${((100 * count) / all).toFixed(1)} %)`;
    lines.push(
      `${SERVERS.length} servers, ${all} tools: ${share(counts.whole)} whole, ${share(counts.narrowed)} narrowed, ${share(counts.refused)} refused`,
    );
    process.stdout.write(`${lines.join('\n')}\n`);
    expect(SERVERS.length).toBeGreaterThanOrEqual(30);
    expect((counts.whole + counts.narrowed) / all).toBeGreaterThanOrEqual(0.99);
  });
});
