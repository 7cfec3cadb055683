// Draws graph.json. Everything that comes from it becomes text by textContent alone: names and messages may hold
// markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const EVERY = 5000;
const COLUMNS = [
  {title: "Gateways", width: 190},
  {title: "Routes", width: 225},
  {title: "Rules", width: 235},
  {title: "Services", width: 195},
  {title: "Pods", width: 235},
];
const GAP = 44;
const LINE = 15;
const SPACE = 8;
const TOP = 24;

const element = (id) => document.getElementById(id);
const brush = document.createElement("canvas").getContext("2d");
let asked = null;
let drawn = null;
let picked = null;

/** The text, cut to this many pixels. */
function fit(text, width, font) {
  brush.font = font;
  if (brush.measureText(text).width <= width) return text;
  let least = 0;
  let most = text.length;
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (brush.measureText(text.slice(0, middle) + "…").width <= width) least = middle;
    else most = middle - 1;
  }
  return text.slice(0, least) + "…";
}

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function count(number, one, many = one + "s") {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

function listener(of) {
  return `${of.port}${of.hostname === "*" ? "" : " " + of.hostname}${of.tls ? " TLS" : ""}`;
}

function match(of) {
  const ends = {Exact: "", Prefix: of.path.endsWith("/") ? "*" : "/*", Text: "*", Regex: " (regex)"};
  const parts = [of.method, of.path + ends[of.type], of.grpc ? "gRPC" : null];
  for (const name of of.headers ?? []) parts.push(`header ${name}`);
  for (const name of of.query ?? []) parts.push(`query ${name}`);
  return parts.filter((part) => part).join(" ");
}

function session(of) {
  const carrier = of.name === undefined ? of.carrier : `${of.carrier} ${of.name}`;
  return of.strict ? `${carrier}, strict` : carrier;
}

function sessionsOf(rule) {
  if (rule.answer !== undefined) return `${rule.answer.status}: ${rule.answer.text}`;
  if (rule.session) return session(rule.session);
  return rule.sessions === "none" ? "no sessions" : `sessions of each ${rule.sessions.replace(/s$/, "")}`;
}

function verdict(of) {
  return of.verdict === "accepted" ? [] : [of.verdict];
}

function podMarks(pod) {
  const marks = pod.state === "ready" ? [] : [pod.state];
  if (pod.heldBack) marks.push("held back");
  else if (pod.fences) marks.push("fenced");
  return marks;
}

/** The nodes of the picture by column, with their lines of text, and the edges between them. */
function plan(graph) {
  const columns = COLUMNS.map(() => []);
  const nodes = new Map();
  const edges = [];
  const put = (column, id, lines, marks, content, more) => {
    const node = {id: `${column} ${id}`, column, lines, marks, content, more, sources: [], near: []};
    nodes.set(node.id, node);
    columns[column].push(node);
    return node;
  };
  const link = (from, to, attributes = {}) => {
    const [source, target] = [nodes.get(from), nodes.get(to)];
    if (!source || !target) return;
    const edge = {source, target, ...attributes};
    edges.push(edge);
    target.sources.push(source);
    source.near.push({edge, node: target, forward: true});
    target.near.push({edge, node: source, forward: false});
  };
  for (const gateway of graph.gateways) {
    const lines = [gateway.id, gateway.listeners.map(listener).join(", ") || "no listener serves",
      `${count(gateway.routes, "route")}, ${count(gateway.envoys, "Envoy")}`];
    put(0, gateway.id, lines, verdict(gateway), gateway);
  }
  for (const route of graph.routes) {
    const {rules, ...rest} = route;
    const lines = [`${route.namespace}/${route.name}`, `${route.kind} ${route.hostnames.join(" ")}`];
    put(1, route.id, lines, verdict(route), rest);
    for (const gateway of route.gateways) link(`0 ${gateway}`, `1 ${route.id}`);
    for (const rule of rules) {
      const id = `${route.id}/${rule.name}`;
      const matches = rule.matches.map(match).join(", ") + (rule.moreMatches ? ` and ${rule.moreMatches} more` : "");
      const invalid = rule.answer?.status >= 500 || rule.destinations.some((of) => of.invalid !== undefined);
      put(2, id, [rule.name, matches, sessionsOf(rule)], invalid ? ["partly"] : [], rule);
      link(`1 ${route.id}`, `2 ${id}`);
    }
  }
  for (const service of graph.services) {
    const {pods, ...rest} = service;
    const facts = [service.externalName, service.tls ? "TLS" : null,
      service.sessions === undefined ? null : count(service.sessions, "session"),
      service.externalName ? null : count(pods.length + service.morePods - service.gonePods, "pod"),
      service.gonePods ? `${service.gonePods} gone` : null];
    put(3, service.id, [service.id, facts.filter((fact) => fact).join(", ")], [], rest);
    pods.forEach((pod, index) => {
      const facts = [pod.address];
      if (pod.sessions) {
        facts.push(count(pod.sessions.sessions, "session"));
        if (pod.sessions.streams) facts.push(count(pod.sessions.streams, "stream"));
      }
      const more = index === pods.length - 1 && service.morePods ? `and ${count(service.morePods, "pod")} more` : null;
      const id = `${service.id} ${pod.address}`;
      put(4, id, [pod.name ?? "no pod", facts.join(", ")], podMarks(pod), pod, more);
      link(`3 ${service.id}`, `4 ${id}`);
    });
  }
  for (const route of graph.routes) {
    for (const rule of route.rules) {
      const id = `2 ${route.id}/${rule.name}`;
      const all = rule.destinations.reduce((sum, of) => sum + of.weight, 0);
      for (const of of rule.destinations) {
        const share = all > 0 && rule.destinations.length > 1 ? `${Math.round((100 * of.weight) / all)} %` : null;
        if (of.service !== undefined) link(id, `3 ${of.service}`, {share});
      }
      for (const mirror of rule.mirrors ?? []) link(id, `3 ${mirror}`, {copy: true});
    }
  }
  return {columns, nodes, edges};
}

/** Gives each node its place: below the one before, and not above where it is reached from. */
function place({columns}) {
  let left = 0;
  let bottom = 0;
  columns.forEach((column, index) => {
    let free = TOP;
    for (const node of column) {
      node.height = LINE * node.lines.length + SPACE;
      node.left = left;
      node.width = COLUMNS[index].width;
      const reached = node.sources.map((source) => source.top);
      node.top = Math.max(free, reached.length ? Math.min(...reached) : 0);
      free = node.top + node.height + SPACE + (node.more ? LINE : 0);
      bottom = Math.max(bottom, free);
    }
    left += COLUMNS[index].width + GAP;
  });
  return {width: left - GAP, height: bottom};
}

function drawNode(node) {
  const classes = ["node", ...node.marks.map((mark) => mark.split(" ")[0])];
  const group = shape("g", {class: classes.join(" "), tabindex: 0, role: "button"});
  group.append(shape("title", {}, [...node.lines, ...node.marks].join("\n")));
  const {left, top, width, height} = node;
  group.append(shape("rect", {x: left + 0.5, y: top + 0.5, width: width - 1, height: height - 1}));
  const mark = node.marks.join(", ");
  brush.font = "bold 11px system-ui, sans-serif";
  const room = width - 14 - (mark ? brush.measureText(mark).width + 8 : 0);
  node.lines.forEach((line, index) => {
    const family = "system-ui, sans-serif";
    const [font, most] = index === 0 ? [`bold 12px ${family}`, room] : [`11px ${family}`, width - 14];
    const weight = index === 0 ? {"font-weight": "bold"} : {class: "more"};
    group.append(shape("text", {x: left + 7, y: top + LINE * (index + 1), ...weight}, fit(line, most, font)));
  });
  if (mark) group.append(shape("text", {class: "mark", x: left + width - 7, y: top + LINE}, mark));
  if (node.more) group.append(shape("text", {class: "more", x: left + 7, y: top + height + LINE - 3}, node.more));
  const pick = () => choose(picked === node.id ? null : node.id);
  group.addEventListener("click", pick);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    pick();
  });
  node.group = group;
  return group;
}

function drawEdge(edge) {
  const {source, target} = edge;
  const [x1, y1] = [source.left + source.width, source.top + source.height / 2];
  const [x2, y2] = [target.left, target.top + target.height / 2];
  const middle = (x1 + x2) / 2;
  const line = `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`;
  edge.shapes = [shape("path", {d: line, class: edge.copy ? "copy" : ""})];
  if (edge.share) {
    edge.shapes.push(shape("text", {class: "weight more", x: x2 - 3, y: y2 - 3, "text-anchor": "end"}, edge.share));
  }
  return edge.shapes;
}

function draw(graph) {
  const picture = plan(graph);
  const {width, height} = place(picture);
  const svg = shape("svg", {width, height: Math.max(height, 2 * TOP), role: "group"});
  let left = 0;
  for (const {title, width} of COLUMNS) {
    svg.append(shape("text", {class: "heading", x: left, y: 14}, title));
    left += width + GAP;
  }
  for (const edge of picture.edges) svg.append(...drawEdge(edge));
  for (const node of picture.nodes.values()) svg.append(drawNode(node));
  element("picture").replaceChildren(svg);
  drawn = {svg, picture};
  choose(picture.nodes.has(picked) ? picked : null);
}

/** Shows what a node is connected with, and what is known of it. `null`: nothing. */
function choose(id) {
  picked = id;
  const {svg, picture} = drawn;
  for (const old of svg.querySelectorAll(".near, .picked")) old.classList.remove("near", "picked");
  svg.classList.toggle("chosen", id !== null);
  element("details").hidden = id === null;
  if (id === null) return;
  const node = picture.nodes.get(id);
  for (const forward of [true, false]) {
    const open = [node];
    const seen = new Set(open);
    for (let of = open.pop(); of; of = open.pop()) {
      of.group.classList.add("near");
      for (const near of of.near.filter((near) => near.forward === forward)) {
        for (const part of near.edge.shapes) part.classList.add("near");
        if (!seen.has(near.node)) open.push(near.node);
        seen.add(near.node);
      }
    }
  }
  node.group.classList.add("picked");
  element("chosen").textContent = node.lines[0];
  element("content").textContent = JSON.stringify(node.content, null, 2);
}

function cell(text, name) {
  const made = document.createElement("td");
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

function tell(graph) {
  const rows = graph.refused.flatMap((object) => {
    const name = [object.kind, object.namespace ? `${object.namespace}/${object.name}` : object.name].join(" ");
    return object.conditions.map((condition) => {
      const row = document.createElement("tr");
      const said = [condition.type, condition.status, condition.reason].filter((word) => word).join(" ");
      const about = condition.about ?? "";
      row.append(cell(name, "object"), cell(object.verdict, object.verdict), cell(about, "about"),
        cell(said, "said"), cell(condition.message));
      return row;
    });
  });
  element("conditions").replaceChildren(...rows);
  element("refused").hidden = rows.length === 0;
  const names = {gateways: "Gateway", routes: "route", rules: "rule", services: "Service", pods: "pod",
    refused: "refused object"};
  const shown = `${count(graph.gateways.length, "Gateway")}, ${count(graph.routes.length, "route")} and ` +
    `${count(graph.services.length, "Service")}`;
  const left = Object.entries(graph.leftOut).filter(([, number]) => number > 0);
  const out = left.map(([what, number]) => count(number, names[what])).join(", ");
  const parts = [graph.published ? shown : "Nothing is published yet"];
  if (graph.search.length) parts.push(`with ${graph.search.map((word) => `“${word}”`).join(" and ")}`);
  if (out) parts.push(`— left out: ${out}; search to see them`);
  return parts.join(" ");
}

function say(text, bad = false) {
  element("status").textContent = text;
  element("status").className = bad ? "bad" : "";
}

let last = "";
async function read() {
  const query = element("query").value.trim();
  const search = query ? `?q=${encodeURIComponent(query)}` : "";
  const file = new URL(`debug/graph.json${search}`, document.baseURI);
  element("json").href = file;
  asked?.abort();
  const mine = new AbortController();
  asked = mine;
  try {
    const answer = await fetch(file, {signal: mine.signal});
    const text = await answer.text();
    if (!answer.ok) throw new Error(text || answer.status);
    if (text !== last) {
      const graph = JSON.parse(text);
      draw(graph);
      say(tell(graph));
      last = text;
    } else if (element("status").className) {
      say(tell(JSON.parse(text)));
    }
  } catch (error) {
    if (!mine.signal.aborted) say(`Not read: ${error.message}. What is shown may be old.`, true);
  }
  if (asked === mine) asked = null;
}

function begin() {
  element("query").value = new URLSearchParams(location.search).get("q") ?? "";
  let typing = 0;
  const search = () => {
    const query = element("query").value.trim();
    history.replaceState(null, "", query ? `?q=${encodeURIComponent(query)}` : location.pathname);
    read();
  };
  element("query").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(search, 250);
  });
  element("search").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    search();
  });
  element("close").addEventListener("click", () => choose(null));
  setInterval(() => {
    if (element("follow").checked && !document.hidden && asked === null) read();
  }, EVERY);
  read();
}

begin();
