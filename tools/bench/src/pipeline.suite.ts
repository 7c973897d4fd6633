import type { ToolSession } from '@toolloop/core/contracts';
import { validate } from 'class-validator';
import {
  InProcessModel,
  callOf,
  hold,
  start,
  untilCancelled,
  WHO,
  type BenchApplication,
  type ExecutionScope,
} from './application.js';
import {
  CheckedInput,
  OpenGuard,
  PassingInterceptor,
  PipelineTools,
  PlainInput,
} from './pipeline.tools.js';
import type { Section, Suite, Table, Target } from './report.js';
import { compare, repeat, type Contender, type Samples } from './sampling.js';
import { YARDSTICK, yardstick } from './yardstick.js';

const CALLS = 4000;
const ROUNDS = { rounds: 11, warmUp: 5 };

interface Case {
  readonly name: string;
  readonly tool: string;
  readonly args: object;
  readonly bare: () => unknown;
  readonly atMost?: number;
}

const tools = new PipelineTools();
const PLAIN_ARGUMENTS = { name: 'John Smith', limit: 10, active: true };
const CHECKED_ARGUMENTS = { name: 'john.smith@example.com', limit: 10, active: true };
const plain = Object.assign(new PlainInput(), PLAIN_ARGUMENTS);
const checked = Object.assign(new CheckedInput(), CHECKED_ARGUMENTS);
const ONE_CALL = 'loop.call';
const SESSION_CALL = 'session.call';
const CLASS_VALIDATOR = 'class-validator alone';

const PLAIN: Case = {
  name: '(a) 3 properties, Ajv',
  tool: 'bench__plain',
  args: PLAIN_ARGUMENTS,
  bare: () => tools.plain(plain),
  atMost: 20,
};
const CHECKED: Case = {
  name: '(b) 3 properties, class-validator too',
  tool: 'bench__checked',
  args: CHECKED_ARGUMENTS,
  bare: () => tools.checked(checked),
};
const GUARDED: Case = {
  name: '(d) as (a), Nest guard + interceptor',
  tool: 'bench__guarded',
  args: PLAIN_ARGUMENTS,
  bare: () => tools.guarded(plain),
  atMost: 60,
};
const CASES: readonly Case[] = [
  PLAIN,
  CHECKED,
  { name: '(c) no arguments', tool: 'bench__nothing', args: {}, bare: () => tools.nothing() },
  {
    name: '(e) as (a), state_change, journaled',
    tool: 'bench__change',
    args: PLAIN_ARGUMENTS,
    bare: () => tools.change(plain),
  },
];

/** The cost of the pipeline itself per call. */
export const pipelineSuite: Suite = {
  name: 'pipeline',
  async run(): Promise<Section> {
    const model = new InProcessModel((step, signal) =>
      step === 1 ? callOf('bench__nothing', {}, 'first') : untilCancelled(signal),
    );
    const app = await start(model, [PipelineTools, OpenGuard, PassingInterceptor]);
    const held = await hold(app);
    const isGuarded = await asksEnhancers(app, held.scope);
    const cases = isGuarded ? [...CASES, GUARDED] : CASES;
    const session = await app.loop.session({ ...WHO, scope: 'bench' });
    const direct = cases.flatMap((one) => [throughPipeline(one, app, held.scope), bareMethod(one)]);
    const contenders = [...direct, inSession(PLAIN, session), oneCall(PLAIN, app)];
    const samples = await compare([...contenders, classValidator(), yardstick()], ROUNDS);
    await session.close();
    await held.end();
    await app.close();
    return section(cases, samples, isGuarded);
  },
};

function throughPipeline(
  { name, tool, args }: Case,
  { runner }: BenchApplication,
  scope: ExecutionScope,
): Contender {
  const text = JSON.stringify(args);
  let count = 0;
  const call = async (): Promise<void> => {
    count += 1;
    const { record } = await runner.exec(
      { call: { toolCallId: `call_${count}`, name: tool, arguments: text }, step: 2, index: count },
      scope,
    );
    if (record.status !== 'succeeded') throw new Error(`${tool}: ${JSON.stringify(record.error)}`);
  };
  return { name, units: CALLS, work: () => repeat(CALLS, call) };
}

function oneCall({ tool, args }: Case, { loop }: BenchApplication): Contender {
  const call = async (): Promise<void> => {
    const { record } = await loop.call({ tool, args: { ...args }, ...WHO });
    if (record.status !== 'succeeded') throw new Error(`${tool}: ${JSON.stringify(record.error)}`);
  };
  return { name: ONE_CALL, units: CALLS, work: () => repeat(CALLS, call) };
}

function inSession({ tool, args }: Case, session: ToolSession): Contender {
  const call = async (): Promise<void> => {
    const { record } = await session.call(tool, { ...args });
    if (record.status !== 'succeeded') throw new Error(`${tool}: ${JSON.stringify(record.error)}`);
  };
  return { name: SESSION_CALL, units: CALLS, work: () => repeat(CALLS, call) };
}

function bareMethod(one: Case): Contender {
  return { name: bareName(one), units: CALLS * 25, work: () => repeat(CALLS * 25, one.bare) };
}

/** With the options of the pipeline. */
function classValidator(): Contender {
  const options = { forbidUnknownValues: true, validationError: { target: false, value: false } };
  return {
    name: CLASS_VALIDATOR,
    units: CALLS,
    work: () => repeat(CALLS, () => validate(checked, options)),
  };
}

async function asksEnhancers(
  { runner }: BenchApplication,
  scope: ExecutionScope,
): Promise<boolean> {
  const call = { toolCallId: 'probe', name: GUARDED.tool, arguments: JSON.stringify(GUARDED.args) };
  await runner.exec({ call, step: 2, index: 0 }, scope);
  return OpenGuard.asked > 0 && PassingInterceptor.asked > 0;
}

function section(cases: readonly Case[], samples: Samples, isGuarded: boolean): Section {
  return {
    title: "the pipeline's own cost per call",
    method: [
      'ToolRunner.exec against the same method called directly, both awaited, in one open run whose events are stamped and read; all tools are asynchronous.',
      `${ROUNDS.rounds} rounds of ${CALLS} calls each after ${ROUNDS.warmUp} rounds of warm-up, interleaved; medians of this thread's time on a CPU, µs per call. "own" is the median of exec − bare,`,
      `"without c-v" is own less class-validator's validate() alone (${samples.of(CLASS_VALIDATOR, 'thread').toFixed(1)} µs for the DTO of (b)).`,
      `"× yardstick" is own in units of one ${YARDSTICK} (${samples.of(YARDSTICK, 'thread').toFixed(2)} µs here), to compare machines. "All threads" is process.cpuUsage. ± is half the quartile distance.`,
    ],
    tables: [
      { title: 'µs per call', columns: COLUMNS, rows: cases.map((one) => rowOf(one, samples)) },
    ],
    targets: [
      ...cases.flatMap((one): Target[] =>
        one.atMost === undefined
          ? []
          : [{ what: one.name, value: ownTime(one, samples), unit: 'µs', atMost: one.atMost }],
      ),
      {
        what: 'session.call of (a), in exec of (a)',
        value: samples.ratio(SESSION_CALL, PLAIN.name, 'thread'),
        unit: '×',
        atMost: 1.15,
      },
      {
        what: 'loop.call of (a), in exec of (a)',
        value: samples.ratio(ONE_CALL, PLAIN.name, 'thread'),
        unit: '×',
        atMost: 2.5,
      },
    ],
    skipped: isGuarded
      ? []
      : [
          {
            what: GUARDED.name,
            why: 'the pipeline does not ask the guards and interceptors of a tool method yet.',
          },
        ],
  };
}

const COLUMNS: Table['columns'] = [
  { key: 'case', title: 'case' },
  { key: 'exec', title: 'exec' },
  { key: 'bare', title: 'bare' },
  { key: 'own', title: 'own' },
  { key: 'ours', title: 'without c-v' },
  { key: 'wall', title: 'own by the clock' },
  { key: 'cpu', title: 'exec, all threads' },
  { key: 'yardsticks', title: '× yardstick', digits: 1 },
  { key: 'spread', title: '± %', digits: 0 },
];

function rowOf(one: Case, samples: Samples): Table['rows'][number] {
  const own = ownTime(one, samples);
  return {
    case: one.name,
    exec: samples.of(one.name, 'thread'),
    bare: samples.of(bareName(one), 'thread'),
    own,
    ours: one === CHECKED ? own - samples.of(CLASS_VALIDATOR, 'thread') : own,
    wall: samples.beyond(one.name, bareName(one), 'wall'),
    cpu: samples.of(one.name, 'cpu'),
    yardsticks: own / samples.of(YARDSTICK, 'thread'),
    spread: samples.spread(one.name, 'thread'),
  };
}

function ownTime(one: Case, samples: Samples): number {
  return samples.beyond(one.name, bareName(one), 'thread');
}

function bareName({ name }: Case): string {
  return `${name}, bare`;
}
