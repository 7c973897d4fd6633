import { afterAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { ToolProvider } from '@toolloop/core';
import { LlmResource } from '@toolloop/mcp';
import { closeAll, connect, ERAS, serve } from './served-notes.js';

afterAll(closeAll);

const HTML = '<!doctype html><title>A note</title>';

@Injectable()
@ToolProvider({ namespace: 'pages' })
class Pages {
  @LlmResource({ uri: 'ui://notes/card', description: 'A note.', reveal: 'all', csp: { connectDomains: ['https://api.example.com'] } })
  card(): string {
    return HTML;
  }
}

const POLICY = { version: '1', flow: 'off', allow: ['notes__*', 'note_*_*', 'pages__*'] } as const;
const withPages = (ui: Readonly<Record<string, string>>) => serve({ providers: [Pages], loop: { policy: POLICY }, server: { ui } });

describe.each(ERAS)('the page of a tool, in the era of %s,', (era) => {
  it('is named by the tool, and served with the origins that it may use', async () => {
    const client = await connect(await withPages({ notes__count: 'ui://notes/card' }), { era });
    const { tools } = await client.listTools();
    expect(tools.filter((tool) => '_meta' in tool)).toEqual([
      expect.objectContaining({ name: 'notes__count', _meta: { ui: { resourceUri: 'ui://notes/card' } } }),
    ]);
    const shown = {
      uri: 'ui://notes/card',
      mimeType: 'text/html;profile=mcp-app',
      _meta: { ui: { csp: { connectDomains: ['https://api.example.com'] } } },
    };
    expect((await client.listResources()).resources).toEqual([expect.objectContaining(shown)]);
    expect((await client.readResource({ uri: 'ui://notes/card' })).contents).toEqual([{ ...shown, text: HTML }]);
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
    expect(JSON.stringify((await client.callTool({ name: 'notes__read', arguments: { word: 'eggs' } })).content)).toContain('eggs of acme');
  });
});

describe('the declaration of a page', () => {
  it.each([
    ['has arguments', { uri: 'ui://notes/{id}' }, 'It is a page, and has arguments.'],
    [
      'has something else than an origin',
      { uri: 'ui://notes/card', csp: { connectDomains: ["https://a.example; script-src 'unsafe-inline'"] } },
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
