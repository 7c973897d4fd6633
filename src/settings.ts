import { Module } from '@nestjs/common';
import type { WebhookOptions } from '@toolloop/toolbox';

/** The settings that the environment decides. */
export interface Settings {
  readonly port: number;
  /**
   * Hosts besides 127.0.0.1 and localhost under which the desk may be asked, e.g.
   * `desk.example.com`.
   */
  readonly allowedHosts: readonly string[];
  /** Origins of pages besides the desk's own that may ask it, e.g. `https://app.example.com`. */
  readonly allowedOrigins: readonly string[];
  /** The key that signs the audit, at least 32 bytes. A random one where it is absent. */
  readonly auditKey?: string;
  /** Signs the sessions of the console, at least 32 characters. A random one where it is absent. */
  readonly consoleSecret?: string;
  /** A PostgreSQL server to keep things on, which several processes may share. */
  readonly databaseUrl?: string;
  /**
   * A folder to keep things in, where there is no server. They are kept in memory where both are
   * absent.
   */
  readonly dataDir?: string;
  /** The address that is told what waits for people. No one is told where it is absent. */
  readonly webhook?: WebhookOptions;
  /** The offline model answers where this is absent. */
  readonly openai?: OpenAiSettings;
}

/** Any server that speaks OpenAI's chat completions. */
export interface OpenAiSettings {
  readonly model: string;
  readonly apiKey?: string;
  readonly baseURL?: string;
}

export const SETTINGS = Symbol('settings');

const DEFAULT_PORT = 3000;
const DEFAULT_MODEL = 'gpt-5-mini';

/**
 * Reads the environment.
 *
 * @throws RangeError with a sentence for the person who starts the desk, when a setting makes no
 *   sense.
 */
export function settingsFrom(env: NodeJS.ProcessEnv): Settings {
  const openai = openAiFrom(env);
  const auditKey = env['AUDIT_KEY'];
  const consoleSecret = env['CONSOLE_SECRET'];
  return {
    port: portFrom(env['PORT']),
    allowedHosts: listFrom(
      env,
      'ALLOWED_HOSTS',
      isHost,
      'a host such as desk.example.com or desk.example.com:8080',
    ),
    allowedOrigins: listFrom(
      env,
      'ALLOWED_ORIGINS',
      isOrigin,
      'an origin such as https://app.example.com',
    ),
    ...(auditKey && { auditKey }),
    ...(consoleSecret && { consoleSecret }),
    ...storageFrom(env),
    ...webhookFrom(env),
    ...(openai && { openai }),
  };
}

function storageFrom(env: NodeJS.ProcessEnv): Pick<Settings, 'databaseUrl' | 'dataDir'> {
  const databaseUrl = env['DATABASE_URL'];
  const dataDir = env['DATA_DIR'];
  return { ...(databaseUrl && { databaseUrl }), ...(dataDir && { dataDir }) };
}

function webhookFrom({
  WEBHOOK_URL: url,
  WEBHOOK_SECRET: secret,
}: NodeJS.ProcessEnv): Pick<Settings, 'webhook'> {
  if (!url) return {};
  if (secret) return { webhook: { url, secret } };
  throw new RangeError(
    'WEBHOOK_URL is set, and nothing signs what is sent there. Set WEBHOOK_SECRET to "whsec_" and 24 to 64 bytes as base64.',
  );
}

function openAiFrom(env: NodeJS.ProcessEnv): OpenAiSettings | undefined {
  const apiKey = env['OPENAI_API_KEY'];
  const baseURL = env['OPENAI_BASE_URL'];
  const model = env['TOOLLOOP_MODEL'];
  if (baseURL && !(URL.canParse(baseURL) && /^https?:/i.test(baseURL))) {
    throw new RangeError(
      `OPENAI_BASE_URL is "${baseURL}"; it must be an address such as http://127.0.0.1:11434/v1.`,
    );
  }
  if (apiKey || baseURL)
    return {
      model: model || DEFAULT_MODEL,
      ...(apiKey && { apiKey }),
      ...(baseURL && { baseURL }),
    };
  if (!model) return undefined;
  throw new RangeError(
    `TOOLLOOP_MODEL is "${model}", and nothing says where that model is. Set OPENAI_API_KEY or OPENAI_BASE_URL, too.`,
  );
}

function portFrom(text: string | undefined): number {
  if (!text) return DEFAULT_PORT;
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new RangeError(`PORT is "${text}"; it must be a number from 0 to 65535.`);
  return port;
}

function listFrom(
  env: NodeJS.ProcessEnv,
  name: string,
  isValid: (entry: string) => boolean,
  form: string,
): string[] {
  const entries = (env[name] ?? '').split(',').map((entry) => entry.trim().toLowerCase());
  const given = entries.filter((entry) => entry !== '');
  const wrong = given.find((entry) => !isValid(entry));
  if (wrong !== undefined)
    throw new RangeError(`${name} contains "${wrong}"; each entry must be ${form}.`);
  return given;
}

/**
 * Tells whether a text can stand in a `Host` header: a name or an address, with a port or without.
 */
function isHost(text: string): boolean {
  return /^(?:[a-z\d](?:[a-z\d.-]*[a-z\d])?|\[[\da-f:.]+\])(?::\d{1,5})?$/.test(text);
}

/**
 * Tells whether a text can stand in an `Origin` header, which has no path and leaves out the port
 * of its protocol.
 */
function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text;
}

@Module({
  providers: [{ provide: SETTINGS, useFactory: () => settingsFrom(process.env) }],
  exports: [SETTINGS],
})
export class SettingsModule {}
