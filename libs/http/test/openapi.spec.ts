import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { Ajv } from 'ajv';
import { ifInstalled, ROUTE_DESCRIPTIONS } from '../src/openapi.js';
import { matches, ROWS, routesOf } from './route-table.js';
import { ask, closeApps, headersOf, type Served, serveApp } from './served-app.js';

let served: Served;
let document: OpenAPIObject;

beforeAll(async () => {
  const script = [
    calls(call('notes__delete', { id: 'n-1' })),
    calls(call('notes__read', { id: 'n-1' })),
    text('It is note n-1.'),
  ];
  served = await serveApp({ model: new ScriptedModel(script) });
  document = SwaggerModule.createDocument(
    served.app,
    new DocumentBuilder().setTitle('Notes').build(),
  );
});
afterAll(closeApps);

interface Operation {
  readonly summary?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema?: object;
  }[];
  readonly requestBody?: unknown;
  readonly responses: Readonly<
    Record<
      string,
      { readonly description: string; readonly content?: Readonly<Record<string, unknown>> }
    >
  >;
}

/** The description of a route of Express, such as `GET /runs/:runId`. */
function operationOf(route: string): Operation | undefined {
  const [method = '', path = ''] = route.split(' ');
  const item = document.paths[path.replaceAll(/:(\w+)/g, '{$1}')] as
    Readonly<Record<string, Operation>> | undefined;
  return item?.[method.toLowerCase()];
}

describe('the OpenAPI document of an application', () => {
  it('describes every route: what it is for, what it takes, and what it answers', () => {
    const poor = routesOf(served).filter((route) => {
      const { summary, tags, responses = {}, parameters = [] } = operationOf(route) ?? {};
      const answers = Object.entries(responses);
      const isOpen = route.startsWith('GET /health');
      const hasAnswer = answers.some(
        ([status, { content }]) =>
          status.startsWith('2') && (content !== undefined || status === '204'),
      );
      const hasSchemas = parameters.every(({ schema }) => schema !== undefined);
      return !(
        summary &&
        tags?.length === 1 &&
        hasAnswer &&
        hasSchemas &&
        (isOpen || '401' in responses)
      );
    });
    expect(poor).toEqual([]);
  });

  it('knows every status by which a route refuses others', () => {
    const untold = routesOf(served).flatMap((route) => {
      const told = Object.keys(operationOf(route)?.responses ?? {});
      const asked = ROWS.filter((row) => matches(route, row)).flatMap(([, , ...answers]) =>
        answers.filter((answer) => typeof answer === 'number'),
      );
      return asked
        .filter((status) => !told.includes(String(status)))
        .map((status) => `${route} ${status}`);
    });
    expect(untold).toEqual([]);
  });

  it('has every schema to which it refers, and the rules of every body', () => {
    const schemas = document.components?.schemas ?? {};
    const names = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(
      ([, name = '']) => name,
    );
    expect(names.filter((name) => !(name in schemas))).toEqual([]);
    expect(
      Object.entries(schemas).filter(
        ([, schema]) =>
          !('properties' in schema) || Object.keys(schema.properties ?? {}).length === 0,
      ),
    ).toEqual([]);
    expect(schemas['AskToStream']).toMatchObject({
      required: ['message'],
      properties: {
        message: { type: 'string', maxLength: 8000 },
        durable: { type: 'boolean' },
        clientTools: { type: 'array', maxItems: 100 },
      },
    });
    const query = operationOf('GET /runs')?.parameters?.map(
      ({ name, in: place, required }) => `${place} ${name} ${required}`,
    );
    expect(query?.toSorted()).toEqual([
      'query actorId false',
      'query after false',
      'query limit false',
      'query ofTenant false',
      'query status false',
    ]);
    expect(operationOf('GET /policies/diff')?.parameters).toMatchObject([
      { required: true },
      { required: true },
    ]);
  });

  it('describes the answers as they are', async () => {
    const ajv = new Ajv({ strict: false, validateFormats: false }).addSchema({
      $id: 'document',
      components: document.components,
    });
    const wrong: string[] = [];
    const check = async (route: string, response: Response): Promise<void> => {
      const { content = {} } = operationOf(route)?.responses[response.status] ?? {};
      const { schema } = (content['application/json'] ?? {}) as { readonly schema?: object };
      if (!schema) throw new Error(`${route} ${response.status} ${await response.text()}`);
      const isFitting = ajv.compile(
        JSON.parse(
          JSON.stringify(schema).replaceAll('"#/components', '"document#/components'),
        ) as object,
      );
      if (!isFitting(await response.json()))
        wrong.push(`${route}: ${ajv.errorsText(isFitting.errors)}`);
    };
    const post = (path: string, body: object, person = 'alice'): Promise<Response> =>
      ask(served, person, body, path);
    await check(
      'POST /chat/answer',
      await post('/chat/answer', { message: 'Delete it', conversationId: 'talk' }),
    );
    await check(
      'POST /v1/chat/completions',
      await post('/v1/chat/completions', {
        model: 'toolloop',
        messages: [{ role: 'user', content: 'Hi' }],
      }),
    );
    await check('POST /tools/:tool', await post('/tools/notes__read', { args: { id: 'n-1' } }));
    await check('POST /tools/:tool', await post('/tools/notes__delete', { args: { id: 'n-1' } }));
    await check(
      'POST /policies',
      await post(
        '/policies',
        { policy: { version: 'x', allow: ['notes__*'] }, expected: 0, reason: 'A test.' },
        'ops',
      ),
    );
    await check(
      'POST /policies/stops',
      await post('/policies/stops', { tool: 'notes__read', reason: 'A test.' }, 'ops'),
    );
    await check('POST /chat', await post('/chat', { message: '' }));
    await check(
      'POST /v1/chat/completions',
      await post('/v1/chat/completions', {
        model: 'other',
        messages: [{ role: 'user', content: 'Hi' }],
      }),
    );
    const gets = routesOf(served).filter(
      (route) => route.startsWith('GET ') && !/:|stream|^GET \/audit$/.test(route),
    );
    for (const route of gets) {
      const query = route.endsWith('/diff') ? '?from=0&to=1' : '';
      await check(
        route,
        await fetch(served.url + route.slice(4) + query, { headers: headersOf('ops') }),
      );
      if (!/health|polic|audit|usage/.test(route))
        await check(
          route,
          await fetch(served.url + route.slice(4), { headers: headersOf('alice') }),
        );
    }
    await check(
      'GET /explain/:tool',
      await fetch(`${served.url}/explain/notes__read`, { headers: headersOf('ops') }),
    );
    expect(wrong).toEqual([]);
  });
});

describe('an application without @nestjs/swagger', () => {
  it('starts and serves as ever', async () => {
    const name = '@nestjs/not-installed';
    expect(await ifInstalled(() => import(name) as Promise<unknown>)).toBeUndefined();
    expect(served.app.get(ROUTE_DESCRIPTIONS)).toBe(true);
  });
});
