import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { ANY_JSON, nested } from '../../http/test/any-json.js';
import { login, serveConsole } from './console-app.js';

const HEADER = 'x-toolloop-console';
const FIELDS = ['name', 'password', 'link'];

describe.each(['express', 'fastify'] as const)('the way into the console on %s', (platform) => {
  let app: INestApplication;
  let url: string;

  beforeAll(async () => {
    ({ app, url } = await serveConsole({ login }, { platform }));
  });
  afterAll(() => app.close());

  async function statusOf(
    body: string | undefined,
    headers: Readonly<Record<string, string>>,
  ): Promise<number> {
    const response = await fetch(`${url}/console/session`, {
      method: 'POST',
      headers,
      ...(body !== undefined && { body }),
    });
    await response.body?.cancel();
    return response.status;
  }

  const PAGE = { [HEADER]: '1', 'content-type': 'application/json' };

  it.each([
    ['no body', undefined, { [HEADER]: '1' }, 400],
    ['an empty body of JSON', '', PAGE, 400],
    ['no header of its page', '{}', { 'content-type': 'application/json' }, 401],
    ['neither a body nor a header', undefined, {}, 401],
    [
      'a form',
      'name=alice',
      { [HEADER]: '1', 'content-type': 'application/x-www-form-urlencoded' },
      401,
    ],
    ['lists in each other', nested(5000, 'lists'), PAGE, 400],
    ['objects in each other', `{"link":${nested(5000, 'objects')}}`, PAGE, 400],
  ])('refuses %s', async (_case, body, headers, status) => {
    expect(await statusOf(body, headers as Record<string, string>)).toBe(status);
  });

  it('answers any JSON, and any JSON in a field, as a mistake of the person or as one try too many', async () => {
    const ofFields = ANY_JSON.flatMap((part) =>
      FIELDS.map((field) => `{${JSON.stringify(field)}:${part}}`),
    );
    for (const body of [...ANY_JSON, ...ofFields])
      expect([400, 401, 413, 429]).toContain(await statusOf(body, PAGE));
  });
});
