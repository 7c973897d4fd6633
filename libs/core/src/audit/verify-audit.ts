#!/usr/bin/env node
import { verifyCommand } from './verify.command.js';

const { exitCode, message } = await verifyCommand(process.argv.slice(2), process.env);
(exitCode === 0 ? process.stdout : process.stderr).write(`${message}\n`);
process.exitCode = exitCode;
