import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { INestApplicationContext } from '@nestjs/common';
import { isRecord } from '@toolloop/protocol';
import type {
  DataSet,
  EvalOptions,
  EvalReport,
  JudgeMeasure,
  RecordedRun,
  Verdict,
} from '@toolloop/evals';
import type { Command } from 'commander';
import { actorIn, type ActorOptions, type AppOptions, boot, packageNear } from './application.js';
import {
  ACTOR,
  APP,
  EXPORT,
  JSON_OPTION,
  type JsonOption,
  type Print,
  TENANT,
} from './command-options.js';
import { type Answer, CommandError } from './output.js';

/** Adds the commands that make tests and cases of stored runs, below `toolloop runs`. */
export function addRunFiles(runs: Command, print: Print): void {
  withApp(
    runs
      .command('test <id>')
      .description(
        'write a stored run as a file, and a spec that plays it against the application',
      ),
  )
    .option('--out <folder>', 'the folder of both files', 'test/runs')
    .option('--runner <name>', 'the test runner of the spec: vitest or jest', 'vitest')
    .action(async (id: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<
        BootOptions & { readonly out: string; readonly runner: string }
      >();
      print(await testOf(id, options), options);
    });
  withApp(runs.command('case <id>').description('add a stored run to a data set, redacted'))
    .option('--to <file>', 'the data set', 'evals/cases.json')
    .option('--name <name>', 'the name of the case')
    .option('--verdict <word>', 'what a person says about the run: right or wrong')
    .option('--why <text>', 'why')
    .action(async (id: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<BootOptions & CaseOptions>();
      print(await addedCase(id, options), options);
    });
}

type EvalsPackage = typeof import('@toolloop/evals');

/**
 * The application of a command. It is booted, so that runs are read and cases are run in this
 * process.
 */
type BootOptions = Partial<AppOptions & ActorOptions> & JsonOption;

function withApp(command: Command): Command {
  for (const option of [APP, EXPORT, ACTOR, TENANT, JSON_OPTION]) command.addOption(option());
  return command;
}

/** Adds `toolloop eval`. */
export function addEvals(program: Command, print: Print): void {
  const evals = withApp(
    program
      .command('eval')
      .description(
        'run data sets against an application; exits with 1 if it got worse than it must be',
      ),
  )
    .argument('[files...]', 'the data sets')
    .option(
      '--config <file>',
      'a module that exports variants, scorers, judge, approver or repeats',
    )
    .option('--repeats <number>', 'the number of runs of each case', Number)
    .option('--concurrency <number>', 'the number of runs at once', Number)
    .option('--case <name>', 'only this case')
    .option('--minimum <share>', 'the share of runs that must pass, from 0 to 1', Number)
    .option('--baseline <file>', 'an earlier report: no case may pass less often than in it')
    .option('--out <file>', 'write the report as JSON')
    .action(async (files: readonly string[], options: EvalCommandOptions) =>
      print(await evaluated(files, options), options),
    );
  evals
    .command('verdict <run> <word>')
    .description('keep what a person says about a run or an approval: right or wrong')
    .option('--approval <id>', 'the approval that it is about')
    .option('--why <text>', 'why')
    .option('--by <person>', 'who says so', process.env['USER'] ?? '')
    .option('--to <file>', 'the file of verdicts', 'evals/verdicts.jsonl')
    .action(async (runId: string, word: string, options: VerdictOptions) =>
      print(await keptVerdict(runId, word, options), {}),
    );
  withApp(
    evals
      .command('judge')
      .description(
        'measure the judge of a config against the verdicts of people; exits with 1 below the minimum',
      ),
  )
    .option('--config <file>', 'a module that exports judge')
    .requiredOption('--question <text>', 'what the judge is asked about each run')
    .option('--verdicts <file>', 'the file of verdicts', 'evals/verdicts.jsonl')
    .option('--minimum <share>', 'the share of runs on which it must agree', Number)
    .action(async (_own: unknown, command: Command) => {
      const options = command.optsWithGlobals<JudgeOptions>();
      print(await measuredJudge(options), options);
    });
}

/** Boots the application for a command, and closes it afterwards. */
async function inApp<Made>(
  { app, actor, tenant, export: name }: BootOptions,
  work: (
    app: INestApplicationContext,
    near: AppOptions,
    person: { readonly actor: unknown; readonly tenant: string },
  ) => Promise<Made>,
): Promise<Made> {
  if (app === undefined)
    throw new CommandError(
      'No application is named. Give --app dist/app.module.js, or set TOOLLOOP_APP.',
    );
  const near = { app, ...(name !== undefined && { export: name }) };
  const booted = await boot(near);
  try {
    const person =
      actor === undefined || tenant === undefined
        ? { actor: undefined, tenant: '' }
        : { actor: await actorIn(booted, near, { actor, tenant }), tenant };
    return await work(booted, near, person);
  } finally {
    await booted.close();
  }
}

/** Reads a run as the actor of the command. */
async function recorded(id: string, options: BootOptions): Promise<RecordedRun> {
  const missing = (['app', 'actor', 'tenant'] as const).filter(
    (name) => options[name] === undefined,
  );
  if (missing.length > 0)
    throw new CommandError(
      `A file of a run is made by the application that is booted for it, never over --url, and by an actor who may read the run. Give ${missing.map((name) => `--${name} (or TOOLLOOP_${name.toUpperCase()})`).join(', ')}.`,
    );
  return inApp(options, async (app, near, person) => {
    const { recordRun } = await packageNear<EvalsPackage>('@toolloop/evals', near.app);
    return recordRun(app, id, person);
  });
}

async function testOf(
  id: string,
  options: BootOptions & { readonly out: string; readonly runner: string },
): Promise<Answer> {
  const { out, runner, app = '' } = options;
  const from = RUNNERS[runner];
  if (from === undefined)
    throw new CommandError(
      `There is no runner "${runner}". Name one of: ${Object.keys(RUNNERS).join(', ')}.`,
    );
  const run = await recorded(id, options);
  const file = join(out, `${fileName(id)}.run.json`);
  const spec = join(out, `${fileName(id)}.spec.ts`);
  write(file, run);
  if (!existsSync(spec))
    writeFileSync(spec, specOf(run, { file, from, module: moduleFrom(out, app) }));
  return {
    value: { run: file, spec },
    text: `${file} has the run, ${spec} plays it. The first time it is run it records what the model is asked, beside them.`,
  };
}

const RUNNERS: Readonly<Record<string, string>> = { vitest: 'vitest', jest: '@jest/globals' };

function fileName(id: string): string {
  return id.replaceAll(/[^\w-]/g, '_').slice(0, 80);
}

/** The sources of the module that `--app` names as it was built. */
function moduleFrom(out: string, app: string): string {
  const path = relative(
    resolve(out),
    resolve(app.replace(/(^|[/\\])dist[/\\]/, '$1src/')),
  ).replaceAll('\\', '/');
  return path.startsWith('.') ? path : `./${path}`;
}

interface SpecParts {
  readonly file: string;
  readonly from: string;
  readonly module: string;
}

function specOf(run: RecordedRun, { file, from, module }: SpecParts): string {
  const name = basename(file, '.run.json');
  const question =
    run.prompt === undefined ? '{ messages: run.messages ?? [] }' : "{ prompt: run.prompt ?? '' }";
  return `import { readFileSync } from 'node:fs';
import { Test } from '@nestjs/testing';
import { ToolLoopService } from '@toolloop/core';
import { CassetteModel, expectSameRun, readRecordedRun, ScriptedModel, scriptOf } from '@toolloop/testing';
import { describe, it } from '${from}';
import { AppModule } from '${module}';

const fileOf = (ending: string): string => new URL(\`./${name}.\${ending}\`, import.meta.url).pathname;
const run = readRecordedRun(readFileSync(fileOf('run.json'), 'utf8'));

describe('the run ${name}', () => {
  it('makes the same calls, with the same decisions, and ends as it did', async () => {
    // The answers are those of the stored run. The cassette keeps what the model was asked, and
    // says so when the prompt or a tool changes.
    const model = new CassetteModel(fileOf('cassette.json'), { model: new ScriptedModel(scriptOf(run), { perRun: true }) });
    // Replace what the tools reach: .override('orders__refund').with(…) of ToolLoopTestingModule.
    const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
    const app = await module.init();
    const result = await app.get(ToolLoopService).run({ ...${question}, actor: run.actor, tenant: run.tenant, model });
    await app.close();
    expectSameRun(result, run);
    model.assertComplete();
  });
});
`;
}

interface CaseOptions {
  readonly to: string;
  readonly name?: string;
  readonly verdict?: string;
  readonly why?: string;
}

async function addedCase(id: string, options: BootOptions & CaseOptions): Promise<Answer> {
  const { to, name, verdict, why, app = '' } = options;
  const word = verdict === undefined ? undefined : wordOf(verdict);
  const { caseOf, dataSetIn, withCase } = await packageNear<EvalsPackage>('@toolloop/evals', app);
  const set: DataSet = existsSync(to) ? dataSetIn(to) : { name: basename(to, '.json'), cases: [] };
  const value = caseOf(await recorded(id, options), {
    ...(name !== undefined && { name }),
    ...(word && { verdict: word }),
    ...(why !== undefined && { why }),
  });
  write(to, withCase(set, value));
  return {
    value,
    text: `${to} has the case "${value.name}". Read it before you commit it: names of people have no form, and are not removed.`,
  };
}

function wordOf(word: string): Verdict['verdict'] {
  if (word === 'right' || word === 'wrong') return word;
  throw new CommandError(`A verdict is right or wrong, not "${word}".`);
}

interface VerdictOptions {
  readonly approval?: string;
  readonly why?: string;
  readonly by: string;
  readonly to: string;
}

async function keptVerdict(
  runId: string,
  word: string,
  { approval, why, by, to }: VerdictOptions,
): Promise<Answer> {
  const { addVerdict } = await packageNear<EvalsPackage>('@toolloop/evals', to);
  const at = new Date().toISOString();
  const value: Verdict = {
    runId,
    verdict: wordOf(word),
    by,
    at,
    ...(approval !== undefined && { approvalId: approval }),
    ...(why !== undefined && { why }),
  };
  mkdirSync(dirname(to), { recursive: true });
  addVerdict(to, value);
  return { value, text: `${to} has it.` };
}

interface EvalCommandOptions extends BootOptions {
  readonly config?: string;
  readonly repeats?: number;
  readonly concurrency?: number;
  readonly case?: string;
  readonly minimum?: number;
  readonly baseline?: string;
  readonly out?: string;
}

async function evaluated(files: readonly string[], options: EvalCommandOptions): Promise<Answer> {
  if (files.length === 0)
    throw new CommandError(
      'No data set is named: toolloop eval evals/cases.json --app dist/app.module.js',
    );
  const { out, minimum, baseline } = options;
  return inApp(options, async (app, near) => {
    const evals = await packageNear<EvalsPackage>('@toolloop/evals', near.app);
    const config = await configIn(options);
    const report = await evals.evaluate(app, chosen(files.map(evals.dataSetIn), options), {
      ...config,
      ...numbersOf(options),
    });
    if (out !== undefined) write(out, report);
    const earlier: EvalReport | undefined =
      baseline === undefined ? undefined : evals.reportIn(baseline);
    const verdict = evals.verdictOn(report, {
      ...(minimum !== undefined && { minimum }),
      ...(earlier && { baseline: earlier }),
    });
    return {
      value: { ...report, verdict },
      text: evals.reportText(report, verdict),
      exitCode: verdict.isGood ? 0 : 1,
    };
  });
}

function numbersOf({ repeats, concurrency }: EvalCommandOptions): EvalOptions {
  return {
    ...(repeats !== undefined && { repeats }),
    ...(concurrency !== undefined && { concurrency }),
  };
}

/** Joins data sets, and leaves the case that is named. */
function chosen(sets: readonly DataSet[], { case: name }: EvalCommandOptions): DataSet {
  const cases = sets
    .flatMap((set) => set.cases)
    .filter((one) => name === undefined || one.name === name);
  if (cases.length === 0)
    throw new CommandError(
      name === undefined ? 'The data sets have no cases.' : `There is no case "${name}".`,
    );
  return { name: sets.map((set) => set.name).join(', '), cases };
}

/**
 * Reads what a module exports for an evaluation. @throws {CommandError} For a file that exports
 * none of it.
 */
async function configIn({ config }: { readonly config?: string }): Promise<EvalOptions> {
  if (config === undefined) return {};
  if (!existsSync(config)) throw new CommandError(`There is no file ${config}.`);
  const loaded: unknown = await import(pathToFileURL(resolve(config)).href);
  const known = Object.entries(isRecord(loaded) ? loaded : {}).filter(([name]) => CONFIG.has(name));
  if (known.length === 0)
    throw new CommandError(`${config} exports none of: ${[...CONFIG].join(', ')}.`);
  return Object.fromEntries(known);
}

const CONFIG: ReadonlySet<string> = new Set([
  'variants',
  'scorers',
  'judge',
  'approver',
  'repeats',
  'concurrency',
  'redact',
] satisfies (keyof EvalOptions)[]);

interface JudgeOptions extends BootOptions {
  readonly config?: string;
  readonly question: string;
  readonly verdicts: string;
  readonly minimum?: number;
}

async function measuredJudge(options: JudgeOptions): Promise<Answer> {
  const { question, verdicts, minimum = 0 } = options;
  const { judge } = await configIn(options);
  if (!judge)
    throw new CommandError(
      'Name the module that exports the judge: --config eval.config.mjs, with export const judge = judgeModel(model);',
    );
  return inApp(options, async (app, near, person) => {
    const { measureJudge, recordRun, toJudged, verdictsIn } = await packageNear<EvalsPackage>(
      '@toolloop/evals',
      near.app,
    );
    const labelled = [];
    for (const { runId, verdict, approvalId } of verdictsIn(verdicts))
      if (approvalId === undefined)
        labelled.push({ run: toJudged(await recordRun(app, runId, person), question), verdict });
    const value = await measureJudge(judge, labelled);
    return { value, text: measureText(value), exitCode: value.agreement >= minimum ? 0 : 1 };
  });
}

function measureText({
  runs,
  agreement,
  kappa,
  passedWrong,
  failedRight,
  disagreements,
}: JudgeMeasure): string {
  return [
    `The judge agrees with people on ${percent(agreement)} of ${runs} runs (kappa ${kappa.toFixed(2)}).`,
    `It passes ${percent(passedWrong)} of what they call wrong, and fails ${percent(failedRight)} of what they call right.`,
    ...disagreements.map(
      ({ run, person, judge, why }) =>
        `  ${run.asked.slice(0, 60)}: ${person}, the judge says ${judge}: ${why}`,
    ),
  ].join('\n');
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function write(file: string, value: unknown): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(value, undefined, 2)}\n`);
}
