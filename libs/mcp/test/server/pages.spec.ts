import { afterAll, describe, expect, it } from '@jest/globals';
import type { Client } from '@modelcontextprotocol/client';
import { Injectable } from '@nestjs/common';
import { ToolProvider } from '@toolloop/core';
import { LlmResource, type UiOrigins } from '@toolloop/mcp';
import { closeAll, connect, ERAS, serve } from './served-notes.js';

afterAll(closeAll);

const HTML = '<!doctype html><title>A note</title>';

@Injectable()
@ToolProvider({ namespace: 'pages' })
class Pages {
  @LlmResource({
    uri: 'ui://notes/card',
    description: 'A note.',
    reveal: 'all',
    csp: { connectDomains: ['https://api.example.com'] },
  })
  card(): string {
    return HTML;
  }
}

const POLICY = { version: '1', flow: 'off', allow: ['notes__*', 'note_*_*', 'pages__*'] } as const;
const withPages = (ui: Readonly<Record<string, string>>) =>
  serve({ providers: [Pages], loop: { policy: POLICY }, server: { ui } });

describe.each(ERAS)('the page of a tool, in the era of %s,', (era) => {
  it('is named by the tool, and served with the origins that it may use', async () => {
    const client = await connect(await withPages({ notes__count: 'ui://notes/card' }), { era });
    const { tools } = await client.listTools();
    expect(tools.filter((tool) => '_meta' in tool)).toEqual([
      expect.objectContaining({
        name: 'notes__count',
        _meta: { ui: { resourceUri: 'ui://notes/card' } },
      }),
    ]);
    const shown = {
      uri: 'ui://notes/card',
      mimeType: 'text/html;profile=mcp-app',
      _meta: { ui: { csp: { connectDomains: ['https://api.example.com'] } } },
    };
    expect((await client.listResources()).resources).toEqual([expect.objectContaining(shown)]);
    expect((await client.readResource({ uri: 'ui://notes/card' })).contents).toEqual([
      { ...shown, text: HTML },
    ]);
  });
});

/**
 * A client that shows pages beside results, as MCP Apps has it: it makes the content security
 * policy of the origins that the page names, and nothing else gets in.
 */
class Browser {
  constructor(private readonly client: Client) {}

  async show(
    name: string,
    args: Record<string, unknown>,
  ): Promise<{ readonly csp: string; readonly html: string; readonly data: string }> {
    const { tools } = await this.client.listTools();
    const { resourceUri = '' } = uiOf(tools.find((tool) => tool.name === name));
    const [page] = (await this.client.readResource({ uri: resourceUri })).contents;
    if (!page || !('text' in page) || page.mimeType !== 'text/html;profile=mcp-app')
      throw new Error(`${resourceUri} is no page.`);
    const { connectDomains = [], resourceDomains = [], frameDomains = [] } = uiOf(page).csp ?? {};
    const csp = `default-src 'none'; connect-src ${from(connectDomains)}; img-src ${from(resourceDomains)}; frame-src ${from(frameDomains)}`;
    return {
      csp,
      html: page.text,
      data: JSON.stringify((await this.client.callTool({ name, arguments: args })).content),
    };
  }
}

const from = (origins: readonly string[]): string => origins.join(' ') || "'none'";

interface Ui {
  readonly resourceUri?: string;
  readonly csp?: UiOrigins;
}

function uiOf(described: object | undefined): Ui {
  const { ui } = (Reflect.get(Object(described), '_meta') ?? {}) as { readonly ui?: Ui };
  return ui ?? {};
}

describe.each(ERAS)('a client that shows pages, in the era of %s,', (era) => {
  it('gets the page of a tool with a policy of the origins that it names, and the result that it shows', async () => {
    const served = await withPages({ notes__read: 'ui://notes/card' });
    const extensions = {
      'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] },
    };
    const browser = new Browser(
      await connect(served, { era, options: { capabilities: { extensions } } }),
    );
    expect(await browser.show('notes__read', { id: 'n1' })).toEqual({
      csp: "default-src 'none'; connect-src https://api.example.com; img-src 'none'; frame-src 'none'",
      html: HTML,
      data: expect.stringContaining('a note of acme'),
    });
  });

  it('gets no page that policy denies it', async () => {
    const served = await serve({
      providers: [Pages],
      loop: { policy: { ...POLICY, deny: ['pages__card'] } },
      server: { ui: { notes__read: 'ui://notes/card' } },
    });
    const browser = new Browser(await connect(served, { era }));
    await expect(browser.show('notes__read', { id: 'n1' })).rejects.toThrow(/ui:\/\/notes\/card/);
  });
});

describe('what options name', () => {
  it('are tools and pages that there are: the rest keeps the application from starting, all at once', async () => {
    const names = { notes__cuont: 'count', notes__find: 'notes__read', 'note_*_edit': 'edit' };
    const started = serve({
      providers: [Pages],
      loop: { policy: POLICY },
      server: { names, ui: { notes__count: 'ui://notes/crad', gone__tool: 'ui://notes/card' } },
    });
    const problems = await started.then(() => '', String);
    for (const words of [
      'There is no tool "notes__cuont".',
      '"notes__read" is the name of "notes__find", and the id of another tool.',
      '"note_*_edit" is a tool of an entity, which keeps its id.',
      'The page of "notes__count" is "ui://notes/crad", which no @LlmResource has.',
      'There is no tool "gone__tool".',
    ])
      expect(problems).toContain(words);
  });

  it('may be exchanged: each name is the id of another tool, which has another name', async () => {
    const names = { notes__find: 'notes__read', notes__read: 'notes__find' };
    const client = await connect(await serve({ server: { names } }));
    expect(
      JSON.stringify(
        (await client.callTool({ name: 'notes__read', arguments: { word: 'eggs' } })).content,
      ),
    ).toContain('eggs of acme');
  });
});

describe('the declaration of a page', () => {
  it.each([
    ['has arguments', { uri: 'ui://notes/{id}' }, 'It is a page, and has arguments.'],
    [
      'has something else than an origin',
      {
        uri: 'ui://notes/card',
        csp: { connectDomains: ["https://a.example; script-src 'unsafe-inline'"] },
      },
      'which is no origin',
    ],
    ['is of another address', { uri: 'notes://card', csp: {} }, 'It has a csp, and is no page.'],
  ])('keeps the application from starting where it %s', async (_, options, problem) => {
    @Injectable()
    @ToolProvider({ namespace: 'wrong' })
    class Wrong {
      @LlmResource({ description: 'A note.', reveal: 'all', ...options })
      card(): string {
        return HTML;
      }
    }
    await expect(serve({ providers: [Wrong] })).rejects.toThrow(problem);
  });
});
