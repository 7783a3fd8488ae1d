//! The picture as SVG, laid out in layers. Colours are attributes, which a page can override with its classes.

use maud::{Markup, html};

use super::{Graph, Node, paint};
use crate::show::tables::Group;

/// Approximate width of a letter.
const LETTER: f64 = 8.0;
const LINE: f64 = 17.0;
const PADDING: f64 = 11.0;
/// Horizontal gap between boxes, for the arrows, and vertical gap.
const ACROSS: f64 = 46.0;
const DOWN: f64 = 16.0;

/// Position and size of a box.
#[derive(Clone, Copy, Default)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// Draws the pipeline. A separate file needs the `namespace`.
pub(super) fn draw(graph: &Graph, namespace: Option<&str>) -> Markup {
    let (places, width, height) = places(graph);
    let at = |number: usize| places.get(number).copied();
    let boxes = graph.nodes.iter().zip(&places);
    let summary = graph.nodes.iter().map(|node| node.lines().join(", "));
    let summary: Vec<String> = summary.collect();
    html! {
        svg.pipeline xmlns=[namespace] role="img" aria-label={ "Pipeline: " (summary.join("; ")) }
            viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height)
            font-family="system-ui, sans-serif" font-size="13" {
            @for edge in &graph.edges {
                @if let (Some(from), Some(to)) = (at(edge.from), at(edge.to)) {
                    (arrow(from, to, edge.any_session))
                }
            }
            @for (node, place) in boxes { (labelled(node, *place)) }
        }
    }
}

/// A box with the name and counts.
fn labelled(node: &Node, place: Place) -> Markup {
    let (fill, line) = paint(node.worst());
    let group = node.worst().map_or(Group::Out, |worst| worst.style().group);
    html! {
        g class={ "g-" (group) } {
            rect.card x=(place.x) y=(place.y) width=(place.width) height=(place.height) rx="6" fill=(fill) stroke=(line) {}
            @for (number, text) in node.lines().iter().enumerate() {
                text x=(place.x + PADDING) y=(place.y + LINE * (number as f64 + 1.0) + 3.0) fill="#111"
                    font-weight=[(number == 0).then_some("600")] { (text) }
            }
        }
    }
}

/// A curve from the right side of a box to the left side of another.
fn arrow(from: Place, to: Place, any_session: bool) -> Markup {
    let (x1, y1) = (from.x + from.width, from.y + from.height / 2.0);
    let (x2, y2) = (to.x - 1.0, to.y + to.height / 2.0);
    let bend = ACROSS / 2.0;
    html! {
        path.edge fill="none" stroke="#777" stroke-width="1.5" stroke-dasharray=[any_session.then_some("5 4")]
            d={ "M" (x1) " " (y1) "C" (x1 + bend) " " (y1) " " (x2 - bend) " " (y2) " " (x2 - 6.0) " " (y2) } {}
        path.head fill="#777" d={ "M" (x2) " " (y2) "l-7-4v8z" } {}
    }
}

/// The place of each box, and the size of the picture.
fn places(graph: &Graph) -> (Vec<Place>, f64, f64) {
    let layers = layers(graph);
    let size = |node: &Node| {
        let lines = node.lines();
        let longest = lines.iter().map(|line| line.chars().count()).max();
        let width = longest.unwrap_or(0) as f64 * LETTER + 2.0 * PADDING;
        (width.round(), lines.len() as f64 * LINE + PADDING)
    };
    let mut places = vec![Place::default(); graph.nodes.len()];
    let (mut x, mut height) = (2.0, 0.0_f64);
    for layer in 0..=layers.iter().copied().max().unwrap_or(0) {
        let (mut y, mut widest) = (2.0, 0.0_f64);
        let members = layers.iter().zip(&graph.nodes).zip(&mut places);
        for ((_, node), place) in members.filter(|((own, _), _)| **own == layer) {
            let (width, height) = size(node);
            *place = Place {
                x,
                y,
                width,
                height,
            };
            y += height + DOWN;
            widest = widest.max(width);
        }
        height = height.max(y - DOWN + 2.0);
        x += widest + ACROSS;
    }
    (places, x - ACROSS + 2.0, height + 2.0)
}

/// The layer of each node: one after its last dependency.
fn layers(graph: &Graph) -> Vec<usize> {
    let mut layers = vec![0; graph.nodes.len()];
    for _ in 0..graph.nodes.len() {
        for edge in &graph.edges {
            let after = layers.get(edge.from).map_or(0, |layer| layer + 1);
            if let Some(layer) = layers.get_mut(edge.to) {
                *layer = after.max(*layer);
            }
        }
    }
    layers
}
