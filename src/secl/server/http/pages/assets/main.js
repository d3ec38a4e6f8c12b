// What the pages can do with a script; each part looks for what its own page has.
import { start } from "./shell.js";
import "./ask.js";
import "./rating.js";
import "./records.js";

start();
