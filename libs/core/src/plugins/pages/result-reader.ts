import { isObject } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { Tool } from '../../contracts/tool.js';
import { builtInTool } from '../../schema/built-in-tool.js';
import { type PageQuestion, RESULT_READER_ID, ResultPage, ResultPages } from './result-pages.js';

/** The tool that reads the kept results of one run, and of no other. */
export function resultReader(pages: ResultPages): Tool {
  return {
    ...READING,
    output: {
      project: (page, audience) =>
        audience !== 'model' && page instanceof ResultPage ? page.facts : null,
    },
    invoke: (args) => pages.read(questionIn(args)),
  };
}

const READER_DESCRIPTION =
  'Reads on in a result that was too large to be shown whole. Its note says the handle and where to continue.';

const READER_INPUT: JSONSchema7 = {
  type: 'object',
  properties: {
    handle: { type: 'string', description: 'As the note of the result says it, such as r1.' },
    offset: {
      type: 'integer',
      minimum: 0,
      description: 'Where to begin, in characters. Default: 0, the beginning.',
    },
    length: {
      type: 'integer',
      minimum: 1,
      description: 'Characters to read at most. Default: as many as can be shown.',
    },
  },
  required: ['handle'],
  additionalProperties: false,
};

/**
 * A page may hold whatever any tool returned, so it is labelled as if it were the worst of them.
 */
const READING = builtInTool({
  id: RESULT_READER_ID,
  description: READER_DESCRIPTION,
  inputSchema: READER_INPUT,
});

/** As policy and listings know the tool, before any run has something to read. */
export const RESULT_READER = resultReader(new ResultPages(0));

function questionIn(args: unknown): PageQuestion {
  const { handle, offset, length } = isObject(args) ? args : {};
  return {
    handle: typeof handle === 'string' ? handle : '',
    offset: wholeOf(offset) ?? 0,
    length: wholeOf(length) ?? Infinity,
  };
}

function wholeOf(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 ? Math.floor(value) : undefined;
}
