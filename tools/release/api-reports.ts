import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { StagedPackage } from './packages.js';

/** The folder of the reports, one for each entry of a package. */
const REPORTS = 'tools/reports';
const EXTRACTOR = 'tools/release/node_modules/@microsoft/api-extractor/bin/api-extractor';

/** An entry of a package whose types are reported. */
interface TypedEntry {
  /** The name of its report, such as `core-stores`. */
  readonly name: string;
  /**
   * The heading of its report, such as `@toolloop/core-stores`: API Extractor takes it for the name
   * of a package.
   */
  readonly heading: string;
  readonly folder: string;
  readonly types: string;
}

/**
 * Compares what each entry of the packages declares with its report, or writes the reports anew.
 * API Extractor brings TypeScript 6 and reads the declarations that TypeScript 7 has emitted.
 *
 * @returns one sentence for each entry that differs
 */
export function compareApi(
  staged: readonly StagedPackage[],
  work: string,
  isWritten: boolean,
): readonly string[] {
  const entries = staged.flatMap(typedEntries);
  mkdirSync(REPORTS, { recursive: true });
  const known = new Set(entries.map(({ name }) => `${name}.api.md`));
  const without = readdirSync(REPORTS).filter(
    (file) => file.endsWith('.api.md') && !known.has(file),
  );
  for (const file of isWritten ? without : []) rmSync(join(REPORTS, file));
  const changed = entries.flatMap((entry) => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      extractorArguments(entry, work, isWritten),
      { encoding: 'utf8' },
    );
    return status === 0
      ? []
      : [
          `${REPORTS}/${entry.name}.api.md differs from what ${entry.folder} declares.\n${(stdout + stderr).trim()}`,
        ];
  });
  return isWritten
    ? changed
    : [...changed, ...without.map((file) => `${REPORTS}/${file} is of no entry.`)];
}

function typedEntries({ manifest, source }: StagedPackage): readonly TypedEntry[] {
  return Object.entries(manifest.exports ?? {}).flatMap(([subpath, target]) => {
    const types = typeof target === 'string' ? undefined : target['types'];
    const parts = subpath.split('/').slice(1);
    const name = [manifest.name.replace('@toolloop/', ''), ...parts].join('-');
    return types === undefined
      ? []
      : [{ name, heading: [manifest.name, ...parts].join('-'), folder: source, types }];
  });
}

function extractorArguments(
  { name, heading, folder, types }: TypedEntry,
  work: string,
  isWritten: boolean,
): readonly string[] {
  const entry = join(resolve(folder), types);
  const place = join(work, name);
  const config = join(place, 'api-extractor.json');
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'package.json'), JSON.stringify({ name: heading, version: '0.0.0' }));
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2023',
    strict: true,
    skipLibCheck: true,
    experimentalDecorators: true,
  };
  const quiet = { default: { logLevel: 'none' } };
  // It is written into reports unless it is named here, below declarations of other folders with
  // the paths of this machine.
  const forgotten = { 'ae-forgotten-export': { logLevel: 'none', addToApiReportFile: false } };
  writeFileSync(
    config,
    JSON.stringify({
      projectFolder: resolve(folder),
      mainEntryPointFilePath: entry,
      compiler: {
        overrideTsconfig: {
          compilerOptions: { ...compilerOptions, types: ['node'] },
          files: [entry],
        },
      },
      apiReport: {
        enabled: true,
        reportFolder: resolve(REPORTS),
        reportTempFolder: place,
        reportFileName: `${name}.api.md`,
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: 'lf',
      messages: {
        compilerMessageReporting: quiet,
        extractorMessageReporting: { ...quiet, ...forgotten },
        tsdocMessageReporting: quiet,
      },
    }),
  );
  return [EXTRACTOR, 'run', '--config', config, ...(isWritten ? ['--local'] : [])];
}
