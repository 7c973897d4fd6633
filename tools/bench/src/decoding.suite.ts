import { floor, ours, sdks, type Reader } from './decoding.readers.js';
import { answerStream, type AnswerStream, type Pace } from './decoding.streams.js';
import type { Section, Suite } from './report.js';
import { compare, repeat, type Contender } from './sampling.js';

const CHUNKS = 2_000;
const ROUNDS = { rounds: 15, warmUp: 10 };
const APIS = ['chat', 'responses', 'messages'] as const;
const PACES: readonly Pace[] = ['chunk by chunk', '16 KB reads'];
const READERS: Readonly<Record<string, Reader>> = { floor, ours, sdk: sdks };

interface Row extends Readonly<Record<string, string | number>> {
  readonly ratioToSdk: number;
}

/** The cost of making an answer of a provider's bytes. */
export const decodingSuite: Suite = {
  name: 'decoding',
  async run(): Promise<Section> {
    const rows: Row[] = [];
    for (const api of APIS) for (const pace of PACES) rows.push(await rowOf(api, pace));
    return {
      title: 'decoding a streamed answer',
      method: [
        `An answer of ${CHUNKS} chunks of text from memory, through a fetch that hands it over in reads: each event in a read of its own, or 16 KB at a time.`,
        "Ours: the SDK's request, our decoder, assemble(). SDK: what its own stream() helper accumulates. Floor: JSON.parse of each data line, and the words",
        'joined. CPU of all threads per chunk, requests included; ratios are medians of rounds.',
      ],
      tables: [
        {
          title: 'CPU per chunk',
          columns: [
            { key: 'api', title: 'api' },
            { key: 'pace', title: 'reads' },
            { key: 'floor', title: 'floor µs' },
            { key: 'ours', title: 'Toolloop µs' },
            { key: 'sdk', title: 'SDK µs' },
            { key: 'ratioToFloor', title: 'Toolloop ÷ floor' },
            { key: 'ratioToSdk', title: 'Toolloop ÷ SDK' },
          ],
          rows,
        },
      ],
      targets: [
        {
          what: "a chunk beside the SDKs' own accumulators, at worst",
          value: Math.max(...rows.map((row) => row.ratioToSdk)),
          unit: '×',
          atMost: 1,
        },
      ],
      skipped: [],
    };
  },
};

async function rowOf(api: AnswerStream['api'], pace: Pace): Promise<Row> {
  const stream = answerStream(api, CHUNKS, pace);
  const samples = await compare(
    Object.entries(READERS).map(([name, reader]) => contender(name, reader, stream)),
    ROUNDS,
  );
  const [floorCost, oursCost, sdkCost] = ['floor', 'ours', 'sdk'].map((name) =>
    samples.of(name, 'cpu'),
  );
  return {
    api,
    pace,
    floor: floorCost ?? Number.NaN,
    ours: oursCost ?? Number.NaN,
    sdk: sdkCost ?? Number.NaN,
    ratioToFloor: samples.ratio('ours', 'floor', 'cpu'),
    ratioToSdk: samples.ratio('ours', 'sdk', 'cpu'),
  };
}

/** Compares only readers that have read all of the answer. */
function contender(name: string, reader: Reader, stream: AnswerStream): Contender {
  const times = 5;
  const read = async (): Promise<void> => {
    const text = await reader(stream);
    if (text !== stream.text)
      throw new Error(
        `${name} read ${text.length} of ${stream.text.length} characters of ${stream.api}.`,
      );
  };
  return { name, units: times * stream.chunks, work: () => repeat(times, read) };
}
