import { describe, expect, it } from '@jest/globals';
import type { LoopEvent, LoopEventBody } from '@toolloop/protocol';
import {
  agUiEncoder,
  assistantTransportEncoder,
  dataStreamEncoder,
  type EventEncoder,
  uiMessageEncoder,
} from '@toolloop/ui-stream';

const CITATION = {
  url: 'https://weather.example/',
  title: 'The weather',
  quote: 'Rain.',
  start: 0,
  end: 8,
};
const SEARCHED: LoopEventBody = {
  type: 'provider-tool',
  step: 1,
  id: 'p1',
  name: 'web_search',
  status: 'succeeded',
};
const CITES: LoopEventBody = { type: 'citation', step: 1, citation: CITATION };

const says = (text: string): LoopEventBody => ({ type: 'text-delta', step: 1, text });

function eventOf(body: LoopEventBody, index: number): LoopEvent {
  return { ...body, runId: 'r1', sequence: index + 1, timestamp: '' };
}

function written(encoder: EventEncoder, ...bodies: readonly LoopEventBody[]): string {
  return bodies.map((body, index) => encoder.encode(eventOf(body, index))).join('');
}

/** The objects in a stream of server-sent events. */
function chunksIn(stream: string): readonly Record<string, unknown>[] {
  const lines = stream.split('\n').filter((line) => line.startsWith('data: '));
  return lines.map((line) => JSON.parse(line.slice('data: '.length)) as Record<string, unknown>);
}

describe('a source that a model names', () => {
  it('is one of the message in the stream of the AI SDK, with the passage in its metadata', () => {
    const chunks = chunksIn(written(uiMessageEncoder(), says('It rains'), CITES, says(' today.')));
    expect(chunks.slice(1).map(({ type }) => type)).toEqual([
      'text-start',
      'text-delta',
      'source-url',
      'text-delta',
    ]);
    const { url, title } = CITATION;
    expect(chunks[3]).toEqual({
      type: 'source-url',
      sourceId: 'source-2',
      url,
      title,
      providerMetadata: { toolloop: CITATION },
    });
  });

  it('is a document there where it has no address', () => {
    const cites: LoopEventBody = { type: 'citation', step: 1, citation: { source: 'rules.pdf' } };
    expect(chunksIn(written(uiMessageEncoder(), cites))[1]).toMatchObject({
      type: 'source-document',
      title: 'rules.pdf',
    });
  });

  it('is a part of the message in the protocols of assistant-stream, and the text continues behind it', () => {
    const source = {
      sourceType: 'url',
      id: 'r1-source-2',
      url: CITATION.url,
      title: CITATION.title,
    };
    const bodies = [says('It rains'), CITES, says(' today')] as const;
    expect(written(dataStreamEncoder(), ...bodies)).toBe(
      `0:"It rains"\nh:${JSON.stringify(source)}\n0:" today"\n`,
    );
    const operations = chunksIn(written(assistantTransportEncoder(), ...bodies, says('.'))).flatMap(
      (chunk) => chunk['operations'],
    );
    const at = ['messages', '0', 'parts'];
    expect(operations.slice(1)).toEqual([
      { type: 'set', path: [...at, '0'], value: { type: 'text', text: 'It rains' } },
      { type: 'set', path: [...at, '1'], value: { type: 'source', ...source } },
      { type: 'set', path: [...at, '2'], value: { type: 'text', text: ' today' } },
      { type: 'append-text', path: [...at, '2', 'text'], value: '.' },
    ]);
  });
});

describe('a tool of the provider', () => {
  it('is shown as data of ours, where a protocol has a place for such', () => {
    const { id, name, status } = { id: 'p1', name: 'web_search', status: 'succeeded' };
    expect(chunksIn(written(uiMessageEncoder(), SEARCHED))[1]).toEqual({
      type: 'data-provider-tool',
      id,
      data: { name, status },
    });
    const custom = chunksIn(written(agUiEncoder({ threadId: 't', runId: 'r' }), SEARCHED)).at(-1);
    expect(custom).toMatchObject({
      type: 'CUSTOM',
      name: 'toolloop.provider-tool',
      value: { name, status },
    });
  });
});
