import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { request } from 'node:http';
import { closeDesks, eventsOf, serve, type ServedDesk } from './served-desk.js';

let desk: ServedDesk;

beforeAll(async () => {
  desk = await serve();
});
afterAll(closeDesks);

interface Scraped {
  readonly status: number | undefined;
  readonly type: string | undefined;
  readonly text: string;
}

/** Scrapes with these headers: `fetch` would set the host itself. */
function scrape(headers: Record<string, string>): Promise<Scraped> {
  return new Promise((resolve, reject) => {
    const asked = request(`${desk.url}/metrics`, { headers }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
      response.on('end', () =>
        resolve({ status: response.statusCode, type: response.headers['content-type'], text }),
      );
    });
    asked.on('error', reject);
    asked.end();
  });
}

const SCRAPER = { authorization: 'Bearer demo-scrape' };
const JOHN = 'What is the average spend of John Smith?';

describe('the metrics of the desk', () => {
  it('tell a scraper of runs, questions to models and calls, and of no person, tenant or argument', async () => {
    await eventsOf(desk, 'alice', JOHN);
    const { status, type, text } = await scrape(SCRAPER);
    expect([status, type]).toEqual([200, expect.stringContaining('text/plain')]);
    expect(text).toMatch(/^gen_ai_invoke_agent_duration_count\{[^}]*\} [1-9]/m);
    expect(text).toMatch(
      /^gen_ai_client_operation_duration_count\{[^}]*gen_ai_provider_name="offline"[^}]*\} [1-9]/m,
    );
    expect(text).toMatch(
      /^gen_ai_execute_tool_duration_count\{[^}]*gen_ai_tool_name="customer_\*_getAverageSpend"[^}]*\} [1-9]/m,
    );
    expect(text).not.toMatch(/alice|acme|c-123|Smith/);
  });

  it.each<[string, Record<string, string>]>([
    ['without a token', {}],
    ['of the operator of one tenant', { authorization: 'Bearer demo-ops' }],
    ['of support', { authorization: 'Bearer demo-bob' }],
    ['of a page that has made its name that of this machine', { ...SCRAPER, host: 'evil.example' }],
  ])('are refused to a request %s', async (_, headers) => {
    const { status, text } = await scrape(headers);
    expect(status).toBe(403);
    expect(text).not.toContain('gen_ai');
  });

  it('are no way in: the token of the scraper is no user', async () => {
    expect((await fetch(`${desk.url}/tools`, { headers: SCRAPER })).status).toBe(401);
  });
});
